package nftables

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"time"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// An endpoint's number is a hash of its address and port that the kernel can
// compute from a packet: no map from endpoints to numbers has to be kept, and
// every agent, before and after a restart, has the same. The numbers begin where
// no slot is, so a view's map of slots holds an endpoint under both.
//
// Two endpoints of one frontend with the same number (one pair in 2^31) share the
// first one's: a client of the second is taken to the first, once.
const (
	numberBase  = 1 << 31
	numberCount = 1<<31 - 1
)

// endpointNumber is what the rule "jhash ip daddr . th dport" computes.
func endpointNumber(e plan.Endpoint) uint32 {
	key := endpointBytes(e)
	return numberBase + uint32(uint64(jhash(key, hashSeed))*numberCount>>32)
}

// hashSeed is an arbitrary number that every version must keep.
const hashSeed = 0x706c756d

// jhash is the kernel's (include/linux/jhash.h, after Bob Jenkins' lookup3).
func jhash(key string, seed uint32) uint32 {
	a := 0xdeadbeef + uint32(len(key)) + seed
	b, c := a, a
	k := []byte(key)
	for len(k) > 12 {
		a += binary.NativeEndian.Uint32(k)
		b += binary.NativeEndian.Uint32(k[4:])
		c += binary.NativeEndian.Uint32(k[8:])
		a, b, c = jhashMix(a, b, c)
		k = k[12:]
	}
	if len(k) == 0 {
		return c
	}
	var tail [12]byte
	copy(tail[:], k)
	a += binary.LittleEndian.Uint32(tail[:])
	b += binary.LittleEndian.Uint32(tail[4:])
	c += binary.LittleEndian.Uint32(tail[8:])
	return jhashFinal(a, b, c)
}

func jhashMix(a, b, c uint32) (uint32, uint32, uint32) {
	for _, by := range [2][3]int{{4, 6, 8}, {16, 19, 4}} {
		a = a - c ^ bits.RotateLeft32(c, by[0])
		c += b
		b = b - a ^ bits.RotateLeft32(a, by[1])
		a += c
		c = c - b ^ bits.RotateLeft32(b, by[2])
		b += a
	}
	return a, b, c
}

func jhashFinal(a, b, c uint32) uint32 {
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}

// groups numbers the groups of frontends that share a memory. A number is a hash
// of the group's key, or the next one that is free; what the kernel has for a
// group after a restart goes before the hash. So a group keeps its number while
// it exists, and has it again when it comes back.
type groups struct {
	used  map[plan.Key]groupUse
	taken map[groupNumber]bool
}

type groupUse struct {
	number uint32
	users  int // frontends
}

type groupNumber struct {
	v6     bool
	number uint32
}

func newGroups() *groups {
	return &groups{used: map[plan.Key]groupUse{}, taken: map[groupNumber]bool{}}
}

// join counts a frontend of a group and returns the group's number.
func (g *groups) join(k plan.Key) uint32 {
	u, known := g.used[k]
	if !known {
		u.number = groupHash(k)
		for g.taken[groupNumber{k.IPv6, u.number}] {
			u.number++
		}
		g.taken[groupNumber{k.IPv6, u.number}] = true
	}
	u.users++
	g.used[k] = u
	return u.number
}

// reserve keeps a number that the kernel has for a group, unless another group
// has it. The group still has to be joined.
func (g *groups) reserve(k plan.Key, number uint32) {
	if _, known := g.used[k]; known || g.taken[groupNumber{k.IPv6, number}] {
		return
	}
	g.used[k] = groupUse{number: number}
	g.taken[groupNumber{k.IPv6, number}] = true
}

func (g *groups) leave(k plan.Key) {
	u := g.used[k]
	u.users--
	if u.users > 0 {
		g.used[k] = u
		return
	}
	delete(g.used, k)
	delete(g.taken, groupNumber{k.IPv6, u.number})
}

func groupHash(k plan.Key) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(frontendKey(k))) // cannot fail
	return h.Sum32()
}

// remembers tells whether a frontend has clients to remember.
func remembers(f plan.Frontend) bool {
	return f.Affinity > 0 && (f.Outside.Action == plan.Forward || f.Inside != nil && f.Inside.Action == plan.Forward)
}

// seconds is a timeout as rules have it.
func seconds(d time.Duration) uint32 {
	const most = 1<<32 - 1
	return uint32(min((d+time.Second-1)/time.Second, most))
}
