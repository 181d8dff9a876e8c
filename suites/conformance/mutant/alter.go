package mutant

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The programs of plumb-ebpf are altered in their instructions, as they are loaded: so they have no switches,
// which would be in everybody's way, and need no compiler. What is altered is found by the names of functions,
// helpers and maps. What is not found is an error: the agent gets no programs, and nothing forwards.

// alteration changes a program with all functions that it uses, and tells how much it changed.
type alteration func(asm.Instructions) (asm.Instructions, int)

// Programs by which the two objects are known; everywhere is both of them.
const (
	devices    = "plumb_ingress"
	sockets    = "plumb_connect4"
	everywhere = ""
)

// altered has the programs of an object altered by each of these, wherever there is something to be.
func altered(object string, by ...alteration) func(*changes) {
	return func(c *changes) {
		c.programs = func(spec *ebpf.CollectionSpec) error {
			if object != everywhere && spec.Programs[object] == nil {
				return nil
			}
			for i, a := range by {
				if alterAll(spec, a) == 0 {
					return fmt.Errorf("alter the programs: alteration %d of %d finds nothing", i+1, len(by))
				}
			}
			return nil
		}
	}
}

func alterAll(spec *ebpf.CollectionSpec, a alteration) (n int) {
	for _, p := range spec.Programs {
		insns, more := a(p.Instructions)
		p.Instructions = called(insns)
		n += more
	}
	return n
}

// returning has a function, or a program, do nothing but return a value.
func returning(function string, value int32) alteration {
	return func(insns asm.Instructions) (out asm.Instructions, n int) {
		for _, f := range functions(insns) {
			if f[0].Symbol() == function {
				n++
				f = asm.Instructions{asm.Mov.Imm(asm.R0, value).WithMetadata(f[0].Metadata), asm.Return()}
			}
			out = append(out, f...)
		}
		return out, n
	}
}

// choice picks instructions of a function, of which it is told in their order.
type choice func(asm.Instruction) bool

// skipping has a value instead of what the calls that are picked in a function return; of every function,
// without a name.
func skipping(function string, picks func() choice, value int32) alteration {
	return rewriting(function, picks, func(was asm.Instruction) asm.Instruction {
		return asm.Mov.Imm(asm.R0, value).WithMetadata(was.Metadata).WithReference("")
	})
}

func rewriting(function string, picks func() choice, f func(asm.Instruction) asm.Instruction) alteration {
	return func(insns asm.Instructions) (out asm.Instructions, n int) {
		for _, body := range functions(insns) {
			picked := picks()
			for _, ins := range body {
				if picked(ins) && (function == "" || body[0].Symbol() == function) {
					n++
					ins = f(ins)
				}
				out = append(out, ins)
			}
		}
		return out, n
	}
}

// calls are those of a function of the programs' own.
func calls(function string) func() choice {
	return func() choice {
		return func(ins asm.Instruction) bool { return ins.IsFunctionCall() && ins.Reference() == function }
	}
}

// helper are the calls of one of the kernel's; of a map, if it is named.
func helper(f asm.BuiltinFunc, of string) func() choice {
	return func() choice {
		at := "" // the map that is in R1, by which helpers get it
		return func(ins asm.Instruction) bool {
			if ins.IsLoadFromMap() && ins.Dst == asm.R1 {
				at = ins.Reference()
				return false
			}
			if !ins.IsBuiltinCall() {
				return false
			}
			mine := asm.BuiltinFunc(ins.Constant) == f && (of == "" || at == of)
			at = ""
			return mine
		}
	}
}

// moving has another one where a function moves one into a register.
func moving(function string, from, to int32) alteration {
	return rewriting(function, func() choice {
		return func(ins asm.Instruction) bool {
			return ins.OpCode.Class().IsALU() && ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.ImmSource && ins.Constant == int64(from)
		}
	}, func(was asm.Instruction) asm.Instruction {
		was.Constant = int64(to)
		return was
	})
}

// calling has a helper called in another's place, which takes the same.
func calling(f, other asm.BuiltinFunc) alteration {
	return rewriting("", helper(f, ""), func(was asm.Instruction) asm.Instruction {
		return other.Call().WithMetadata(was.Metadata)
	})
}

// functions are a program's: it itself first.
func functions(insns asm.Instructions) (out []asm.Instructions) {
	for _, ins := range insns {
		if ins.Symbol() != "" {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], ins)
	}
	return out
}

// called are the instructions without functions that nothing calls any more: the verifier takes none that
// cannot be reached.
func called(insns asm.Instructions) (out asm.Instructions) {
	bodies := map[string]asm.Instructions{}
	all := functions(insns)
	for _, f := range all {
		bodies[f[0].Symbol()] = f
	}
	used := map[string]bool{}
	var use func(string)
	use = func(name string) {
		if used[name] {
			return
		}
		used[name] = true
		for _, ref := range bodies[name].FunctionReferences() {
			use(ref)
		}
	}
	use(all[0][0].Symbol())
	for _, f := range all {
		if used[f[0].Symbol()] {
			out = append(out, f...)
		}
	}
	return out
}
