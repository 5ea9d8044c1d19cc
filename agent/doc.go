// Package agent is the path cache of one InfiniBand port of a host. Programs ask it for
// path records; it answers from memory, or asks the subnet administrator (SA) once for all
// who wait for the same path.
//
// The cache follows Algorithm 2 of Tasoulas et al. ("A Novel Query Caching Scheme for
// Dynamic InfiniBand Subnets", 2015): a record is kept only if the SA permits it, in the
// reserved bits at bit offset 353 of the record. Unlike there, the permission counts for that
// record alone, and entries leave the cache:
//
//   - when a notice names them: traps 64 and 65 (a GID came or left), 68 and 69 (paths of
//     this port are lost or changed);
//   - when the port's LID, GIDs or P_Keys change;
//   - when a query finds the path gone or no longer permitted;
//   - when they are older than Config.MaxAge and Config.StaleTime together;
//   - when room is needed: the entry least recently used leaves.
//
// An entry is served without a query until it is Config.MaxAge old (Config.BlindAge if the
// notices were not subscribed to when it was read). Each change of the subnet manager, and each
// time the port was down, makes all entries suspect. One question to an SA with generations
// (docs/signalling.md) ends the doubt; otherwise each entry is asked for again before it is
// served. The SA is asked each Config.VerifyTime too. Only while the SA is silent are old and
// suspect entries served as they are, for Config.StaleTime beyond MaxAge. So if a notice is lost,
// a changed path, and one to a port that left, is right again after VerifyTime with generations;
// without them after MaxAge; and after MaxAge + StaleTime while the SA is silent.
//
// Policy AsPublished leaves all of this out: it is the algorithm as printed.
//
// Core is pure: Step takes the time and one event, and appends to an Output what is to be
// sent and answered. One goroutine uses a Core at a time. The package depends on mad and ib
// alone, so real hosts (agent/live) and simulated ones (lab.PathHost) run the same code.
package agent
