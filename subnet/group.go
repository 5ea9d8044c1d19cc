package subnet

import "heddle/ib"

// Group is a multicast group as a subnet manager routes it.
type Group struct {
	MGID ib.GID
	MLID ib.LID // 0xC000–0xFFFE, another for each group
	SL   ib.SL
	PKey ib.PKey
	MTU  ib.MTU
	Rate ib.Rate
	// Members are the port GUIDs of full members and of those that only send;
	// ports that the subnet does not have (yet) do not count. Senders are those
	// of Members that only send. Neither is changed once handed over.
	Members, Senders []ib.GUID
}

// Alias is an alias GUID that a port is to have: entry Index of its GUIDInfo
// table, 1 or more. GUID 0 empties the entry.
type Alias struct {
	Port  ib.GUID // port GUID
	Index uint8
	GUID  ib.GUID
	// Carries: an administrator set it, so Port gets the partitions granted to this GUID.
	// Otherwise an alias is only an address.
	Carries bool
}
