package rds

import (
	"heddle/ib"
	wire "heddle/ib/sa"
)

// Cache is the path cache of a host, Algorithm 2 of Tasoulas et al. (2015): as published,
// an entry is never removed, however wrong it becomes. The zero value is empty.
type Cache struct {
	enabled bool
	table   map[ib.GID]wire.PathRecord
	// Saved counts the paths that Find had.
	Saved int
}

// Find returns the cached path to a GID. It looks only if some answer has permitted caching.
func (c *Cache) Find(dst ib.GID) (r wire.PathRecord, ok bool) {
	if c.enabled {
		if r, ok = c.table[dst]; ok {
			c.Saved++
		}
	}
	return r, ok
}

// Answered takes the answer of the SA to a query for a GID, and keeps it if the reserved
// field at bit offset 353 permits it.
func (c *Cache) Answered(dst ib.GID, r *wire.PathRecord) {
	if r.Reserved3 == 0 {
		return
	}
	if c.enabled = true; c.table == nil {
		c.table = map[ib.GID]wire.PathRecord{}
	}
	if _, has := c.table[dst]; !has {
		c.table[dst] = *r
	}
}

// Len is the number of entries.
func (c *Cache) Len() int { return len(c.table) }
