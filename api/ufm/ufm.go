// Package ufm serves the calls of NVIDIA's UFM that orchestrators make, so that programs written
// for UFM work with Heddle, such as the unmodified ufm plugin of ib-kubernetes.
// Names, bodies and status codes are those of the UFM Enterprise REST API;
// success is always 200. The calls change the memberships of the address
// manager; partitions of a policy file are not shown.
package ufm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/version"
	"heddle/partition"
	"heddle/vm"
)

// MaxBody bounds a request in bytes: some hundred thousand GUIDs.
const MaxBody = 8 << 20

// New returns the handler of the calls, without authentication: api.NewBasic adds it.
func New(m api.Memberships) http.Handler {
	u := &calls{m}
	mux := http.NewServeMux()
	handle := func(pattern string, f func(w http.ResponseWriter, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			// A standby's list may be stale: a client that trusted it could assign GUIDs
			// that are in use.
			if err := m.Master(); err != nil {
				refuse(w, http.StatusServiceUnavailable, err.Error())
				return
			}
			v, err := f(w, r)
			if err != nil {
				refuse(w, statusOf(err), err.Error())
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
		})
	}
	handle("GET /ufmRest/app/ufm_version", u.version)
	handle("POST /ufmRest/resources/pkeys/add", u.addPartition)
	// Both spellings, without a redirect: that would lose the body.
	for _, end := range [...]string{"", "/{$}"} {
		handle("GET /ufmRest/resources/pkeys"+end, u.list)
		handle("POST /ufmRest/resources/pkeys"+end, u.add)
		handle("PUT /ufmRest/resources/pkeys"+end, u.replace)
		handle("GET /ufmRest/resources/pkeys/{pkey}"+end, u.one)
		handle("DELETE /ufmRest/resources/pkeys/{pkey}"+end, u.end)
		handle("GET /ufmRest/resources/vports"+end, u.vports)
		handle("POST /ufmRest/actions/remove_guids_from_pkey"+end, u.remove)
	}
	handle("DELETE /ufmRest/resources/pkeys/{pkey}/guids/{guids}", u.removeNamed)
	return mux
}

func statusOf(err error) int {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return http.StatusRequestEntityTooLarge
	}
	return api.VMStatus(err)
}

type calls struct{ m api.Memberships }

func (u *calls) version(http.ResponseWriter, *http.Request) (any, error) {
	return map[string]string{"ufm_release_version": version.Version, "product": "heddle"}, nil
}

// request is the body of every call that changes something; each call needs some
// of it.
type request struct {
	PKey        string   `json:"pkey"`
	GUIDs       []string `json:"guids"`
	Index0      *bool    `json:"index0"`
	IPoIB       *bool    `json:"ip_over_ib"`
	Membership  string   `json:"membership"`
	Memberships []string `json:"memberships"`
	// Settings of a partition's group and paths, if not the default.
	MTU  *float64 `json:"mtu_limit"`
	SL   *float64 `json:"service_level"`
	Rate *float64 `json:"rate_limit"`

	key           ib.PKey
	full, limited []ib.GUID
}

// read reads and checks a body.
func read(r io.Reader) (*request, error) {
	var b request
	d := json.NewDecoder(r)
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("%w: the body is not a JSON object of the expected form: %w", vm.ErrInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: unexpected data after the JSON object", vm.ErrInvalid)
	}
	var err error
	if b.key, err = ufmKey(b.PKey); err != nil {
		return nil, err
	}
	if len(b.Memberships) > 0 && len(b.Memberships) != len(b.GUIDs) {
		return nil, fmt.Errorf("%w: memberships has %d entries for %d guids", vm.ErrInvalid, len(b.Memberships), len(b.GUIDs))
	}
	for i, s := range b.GUIDs {
		g, err := ufmGUID(s)
		if err != nil {
			return nil, err
		}
		as := b.Membership
		if len(b.Memberships) > 0 {
			as = b.Memberships[i]
		}
		switch cmp.Or(as, "full") {
		case "full":
			b.full = append(b.full, g)
		case "limited":
			b.limited = append(b.limited, g)
		default:
			return nil, fmt.Errorf("%w: membership %q: want full or limited", vm.ErrInvalid, as)
		}
	}
	for _, q := range [...]struct {
		name string
		v    *float64
		same float64
	}{{"mtu_limit", b.MTU, 2}, {"service_level", b.SL, 0}, {"rate_limit", b.Rate, 2.5}} {
		if q.v != nil && *q.v != q.same {
			return nil, fmt.Errorf("%w: %s %v: only %v is supported here; set another value in the file of --partitions", vm.ErrInvalid, q.name, *q.v, q.same)
		}
	}
	return &b, nil
}

// ufmKey reads a P_Key: 0x1 to 0x7ffe.
func ufmKey(s string) (ib.PKey, error) {
	k, err := ib.ParsePKey(s)
	if err != nil || len(s) < 3 || s[0] != '0' || s[1]|0x20 != 'x' || k == 0 || k >= partition.DefaultKey {
		return 0, fmt.Errorf("%w: pkey %q: want 0x1 to 0x7ffe", vm.ErrInvalid, s)
	}
	return k, nil
}

// ufmGUID reads a GUID of 16 hex digits, perhaps with 0x before or separators
// between them.
func ufmGUID(s string) (ib.GUID, error) {
	g, err := ib.ParseGUID(s)
	if err != nil || g == 0 || len(s) < 16 {
		return 0, fmt.Errorf("%w: guid %q: want 16 hex digits, not all zero", vm.ErrInvalid, s)
	}
	return g, nil
}

// ufmText is a GUID in the form of UFM and its plugin: 16 lower-case hex digits.
func ufmText(g ib.GUID) string { return fmt.Sprintf("%016x", uint64(g)) }

func (u *calls) perform(r *http.Request, ops ...vm.Op) error {
	replies, err := u.m.Perform(r.Context(), ops)
	if err != nil {
		return err
	}
	for i := range replies {
		if err := replies[i].Err; err != nil {
			return err
		}
	}
	return nil
}

// settings are those of the body, otherwise those of the partition, otherwise
// UFM's defaults.
func (u *calls) settings(b *request) (index0, ipoib bool) {
	index0, ipoib = false, true
	if v := u.m.Interfaces(); v != nil {
		i, ok := slices.BinarySearchFunc(v.Partitions, b.key, func(m vm.Members, k ib.PKey) int { return cmp.Compare(m.PKey, k) })
		if ok {
			index0, ipoib = v.Partitions[i].Index0, v.Partitions[i].IPoIB
		}
	}
	if b.Index0 != nil {
		index0 = *b.Index0
	}
	if b.IPoIB != nil {
		ipoib = *b.IPoIB
	}
	return index0, ipoib
}

var ufmDone = map[string]string{}

func (u *calls) addPartition(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := read(r.Body)
	if err != nil {
		return nil, err
	}
	index0, ipoib := u.settings(b)
	return ufmDone, u.perform(r, vm.AddMembers{PKey: b.key, Full: true, Index0: index0, IPoIB: ipoib})
}

func (u *calls) add(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := read(r.Body)
	if err != nil {
		return nil, err
	}
	if len(b.GUIDs) == 0 {
		return nil, fmt.Errorf("%w: guids is empty; /ufmRest/resources/pkeys/add makes a partition without members", vm.ErrInvalid)
	}
	var ops []vm.Op
	index0, ipoib := u.settings(b)
	if len(b.full) > 0 {
		ops = append(ops, vm.AddMembers{PKey: b.key, GUIDs: b.full, Full: true, Index0: index0, IPoIB: ipoib})
	}
	if len(b.limited) > 0 {
		ops = append(ops, vm.AddMembers{PKey: b.key, GUIDs: b.limited, Index0: index0, IPoIB: ipoib})
	}
	return ufmDone, u.perform(r, ops...)
}

func (u *calls) replace(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := read(r.Body)
	if err != nil {
		return nil, err
	}
	index0, ipoib := u.settings(b)
	ops := []vm.Op{vm.AddMembers{PKey: b.key, GUIDs: b.full, Full: true, Index0: index0, IPoIB: ipoib, Replace: true}}
	if len(b.limited) > 0 {
		ops = append(ops, vm.AddMembers{PKey: b.key, GUIDs: b.limited, Index0: index0, IPoIB: ipoib})
	}
	return ufmDone, u.perform(r, ops...)
}

func (u *calls) remove(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := read(r.Body)
	if err != nil {
		return nil, err
	}
	return ufmDone, u.gone(r, b.key, append(b.full, b.limited...))
}

func (u *calls) removeNamed(_ http.ResponseWriter, r *http.Request) (any, error) {
	key, err := ufmKey(r.PathValue("pkey"))
	if err != nil {
		return nil, err
	}
	var guids []ib.GUID
	for s := range strings.SplitSeq(r.PathValue("guids"), ",") {
		g, err := ufmGUID(s)
		if err != nil {
			return nil, err
		}
		guids = append(guids, g)
	}
	return ufmDone, u.gone(r, key, guids)
}

// gone ends memberships. Missing ones are ignored, because clients repeat
// requests.
func (u *calls) gone(r *http.Request, key ib.PKey, guids []ib.GUID) error {
	if len(guids) == 0 {
		return fmt.Errorf("%w: guids is empty", vm.ErrInvalid)
	}
	err := u.perform(r, vm.RemoveMembers{PKey: key, GUIDs: guids})
	if errors.Is(err, vm.ErrNotFound) {
		return nil
	}
	return err
}

func (u *calls) end(_ http.ResponseWriter, r *http.Request) (any, error) {
	key, err := ufmKey(r.PathValue("pkey"))
	if err != nil {
		return nil, err
	}
	return ufmDone, u.perform(r, vm.RemoveMembers{PKey: key, All: true})
}

// ufmPartition is a partition as UFM shows it.
type ufmPartition struct {
	Name  string       `json:"partition"`
	IPoIB bool         `json:"ip_over_ib"`
	GUIDs *[]ufmMember `json:"guids,omitempty"`
}

type ufmMember struct {
	GUID       string `json:"guid"`
	Membership string `json:"membership"`
	Index0     bool   `json:"index0"`
}

// partitions lists all of the address manager's: partition members without an
// interface, and interfaces with the P_Key, so that clients see which GUIDs are
// in use.
func (u *calls) partitions(guids bool) map[ib.PKey]*ufmPartition {
	out := map[ib.PKey]*ufmPartition{}
	v := u.m.Interfaces()
	if v == nil {
		return out
	}
	members := map[ib.PKey]map[ib.GUID]*ufmMember{}
	at := func(k ib.PKey) *ufmPartition {
		p := out[k]
		if p == nil {
			p = &ufmPartition{Name: fmt.Sprintf("api_pkey_%#x", uint16(k))}
			out[k], members[k] = p, map[ib.GUID]*ufmMember{}
		}
		return p
	}
	join := func(k ib.PKey, g ib.GUID, full, index0 bool) {
		m := members[k][g]
		if m == nil {
			m = &ufmMember{GUID: ufmText(g), Membership: "limited", Index0: index0}
			members[k][g] = m
		}
		if full {
			m.Membership = "full"
		}
	}
	for i := range v.Partitions {
		p := &v.Partitions[i]
		at(p.PKey).IPoIB = p.IPoIB
		for _, g := range p.Full {
			join(p.PKey, g, true, p.Index0)
		}
		for _, g := range p.Limited {
			join(p.PKey, g, false, p.Index0)
		}
	}
	for x := range v.All() {
		for _, k := range x.Keys {
			if at(k.PKey); x.GUID != 0 { // otherwise it will have a function's, and is on none
				join(k.PKey, x.GUID, k.Full, false)
			}
		}
	}
	if guids {
		for k, p := range out {
			list := make([]ufmMember, 0, len(members[k]))
			for _, m := range members[k] {
				list = append(list, *m)
			}
			slices.SortFunc(list, func(a, b ufmMember) int { return cmp.Compare(a.GUID, b.GUID) })
			p.GUIDs = &list
		}
	}
	return out
}

func wantsGUIDs(r *http.Request) bool { return r.URL.Query().Get("guids_data") == "true" }

func (u *calls) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	out := map[string]*ufmPartition{}
	for k, p := range u.partitions(wantsGUIDs(r)) {
		out[k.String()] = p
	}
	return out, nil
}

func (u *calls) one(_ http.ResponseWriter, r *http.Request) (any, error) {
	key, err := ufmKey(r.PathValue("pkey"))
	if err != nil {
		return nil, err
	}
	p := u.partitions(wantsGUIDs(r))[key]
	if p == nil {
		return nil, fmt.Errorf("pkey %v: %w", key, api.ErrNoPartition)
	}
	return p, nil
}

// ufmVPort is a virtual port as UFM shows it.
type ufmVPort struct {
	State       string `json:"virtual_port_state"`
	LID         int    `json:"virtual_port_lid"`
	GUID        string `json:"virtual_port_guid"`
	SystemName  string `json:"system_name"`
	SystemIP    string `json:"system_ip"` // unknown here
	SystemGUID  string `json:"system_guid"`
	PortGUID    string `json:"port_guid"`
	PortName    string `json:"port_name"`
	PortNumber  int    `json:"port_number"`
	Description string `json:"node_description"`
}

func (u *calls) vports(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	out := []ufmVPort{}
	plain := func(s string) string { return strings.TrimPrefix(s, "0x") }
	for _, p := range u.m.VPorts() {
		v := ufmVPort{
			State: p.State, LID: p.LID, GUID: plain(p.GUID), SystemName: p.Node, SystemGUID: plain(p.NodeGUID),
			PortGUID: plain(p.PortGUID), PortName: fmt.Sprintf("%s_%d", plain(p.PortGUID), p.Port), PortNumber: p.Port, Description: p.Description,
		}
		if want := q.Get("system"); want != "" && want != v.SystemGUID {
			continue
		}
		if want := q.Get("port"); want != "" && want != v.PortName {
			continue
		}
		out = append(out, v)
	}
	return out, nil
}

func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, why+"\n") // an error means that the client is gone
}
