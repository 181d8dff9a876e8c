package nftables

// slotPart is the part that holds a frontend's slots, as the rules compute it
// (toSlot).
func slotPart(front string) int { return int(uint64(jhash(front, hashSeed)) * slotParts >> 32) }

// partElements lead to the chains of the parts.
func (f family) partElements() []Element {
	var out []Element
	for v := viewServices; v <= views; v++ {
		for part := range slotParts {
			out = append(out, Element{elementID{v6: f.v6, set: v.parts(), key: numberBytes(uint32(part))}, v.slotsChain(part)})
		}
	}
	return out
}
