package subnet

import "fmt"

// Cause says why a placement waits or is refused. Programs branch on it;
// PlacementReport.Reason is the same in words.
type Cause uint8

// The causes.
const (
	CauseNone Cause = iota

	// Of the port that the placement names.

	CausePortAbsent        // the port is not in the subnet
	CauseNoFunctions       // the port has no virtual functions
	CauseFunctionsUnusable // the port's virtual functions cannot be managed
	CauseFunctionsUnread   // the port's virtual functions have not been read yet
	CausePortSilent        // a port still has the floating LID and does not answer

	// Of the function.

	CauseNoSuchFunction // the port has no function with this index
	CauseFunctionDown   // the hypervisor has not brought the function up
	CauseFunctionUnread // the function has not been read yet
	CauseOtherGUID      // the function shows another GUID
	CauseFunctionHeld   // the function still holds the address of another placement
	CauseFunctionTaken  // the function, or a port with room for one, is reserved for another placement
	CauseComingUp       // the function is being brought up
	CauseNotTaken       // the function or port does not take the address
	CauseNotGivenUp     // the function that has the address does not give it up

	// Of the address.

	CauseGUIDTaken // the GUID is that of a port of the subnet
	CauseLIDKind   // the port cannot provide the requested kind of LID
	CauseNoLID     // no LID is left
	CauseTableFull // the requested LID is above the smallest forwarding table
	CauseLIDTaken  // the requested LID belongs to another port or function
	CauseLIDInUse  // another LID than the requested one may be in use
	CauseNotStored // the LID could not be stored
	CauseNoRoute   // the LID could not be routed to the port

	NumCauses
)

var causeNames = [NumCauses]string{
	CauseNone: "none", CausePortAbsent: "port_absent", CauseNoFunctions: "no_functions", CauseFunctionsUnusable: "functions_unusable",
	CauseFunctionsUnread: "functions_unread", CausePortSilent: "port_silent", CauseNoSuchFunction: "no_such_function",
	CauseFunctionDown: "function_down", CauseFunctionUnread: "function_unread", CauseOtherGUID: "other_guid",
	CauseFunctionHeld: "function_held", CauseFunctionTaken: "function_taken", CauseComingUp: "coming_up", CauseNotTaken: "not_taken",
	CauseNotGivenUp: "not_given_up", CauseGUIDTaken: "guid_taken", CauseLIDKind: "lid_kind", CauseNoLID: "no_lid",
	CauseTableFull: "table_full", CauseLIDTaken: "lid_taken", CauseLIDInUse: "lid_in_use", CauseNotStored: "not_stored", CauseNoRoute: "no_route",
}

func (c Cause) String() string {
	if c < NumCauses {
		return causeNames[c]
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}
