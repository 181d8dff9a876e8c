package main

// target is what is mutated: all files of a folder, or some.
type target struct {
	folder string
	files  []string
	stages []stage
}

// stage are tests that may notice a mutant.
type stage struct {
	name        string // in the table
	folder, run string // the package, and which of its tests
	contract    bool   // they take longer, up to some minutes
	kernel      bool   // they ask the kernel, and may fail for what else is on the host
}

// targets have their stages by cost. What decides for all backends, the plan, is held against its
// own tests, the cases' packet tables, who follows differences of plans, who ends stale flows,
// and the contract of one backend; a renderer against what it is known to write, its other tests,
// and its contract; what carries changes to it over time against its own tests and histories; what
// ends flows, and what answers for health, against their own.
var targets = []target{ // const
	{"dataplane/plan", nil, []stage{
		{"plan", "dataplane/plan", ".", false, false},
		{"cases", "dataplane/dptest", "^(TestPlans|Fuzz.*)$", false, false},
		{"loop", "dataplane/loop", ".", false, false},
		{"histories", "dataplane/dptest", "^TestPlanHistories$", false, false},
		{"conntrack", "dataplane/conntrack", "^(TestQuestions|TestNodeAddressAlone|TestGoneTCP|TestJudgeUDP|TestDone|TestResetAfterGrace)$", false, true},
		{"contract of nftables", "dataplane/nftables", "^TestContract$", true, true},
	}},
	{"dataplane/nftables", []string{"render.go", "rules.go", "chains.go", "affinity.go", "slots.go"}, []stage{
		{"golden", "dataplane/nftables", "^TestContract$/^Golden$|^(TestNftLists|TestPath.*|TestGroups|TestRemembers|TestJhash|TestIntervals|TestEndpointBytes|TestOpsFold|TestSlotsWithGap|TestScriptSays.*)$", false, true},
		{"rules", "dataplane/nftables", "^(TestNftListsCases|TestSlotsIn.*|TestScriptIsTaken|TestChainsComeFirst|TestHooksComeLast|TestSCTP|TestMemorySurvives|TestMirror|TestElementsThatDiffer|TestMasqueradeSet|TestPodsOfOneBridge)$", false, true},
		{"random packets", "dataplane/nftables", "^TestContract$/^(Random|Distribution|Names)$", false, true},
		{"contract", "dataplane/nftables", "^TestContract$", true, true},
	}},
	{"dataplane/iptables", []string{"render.go", "refusal.go", "names.go"}, []stage{
		{"golden", "dataplane/iptables", "^(TestGolden|TestOrder|TestGrammar|TestRulesPerService|TestExplain|TestDiffReplays|TestDiffIsSmall|TestScriptIsTaken)$", false, true},
		{"rules", "dataplane/iptables", "^(TestOneMemory|TestWhereNothingIsLetThrough|TestForeignRulesStay)$", false, true},
		{"random packets", "dataplane/iptables", "^TestContract$/^nft$/^(Random|Distribution|Names)$", false, true},
		{"contract", "dataplane/iptables", "^TestContract$/^nft$", true, true},
	}},
	{"dataplane/conntrack", []string{"flow.go", "forget.go", "kept.go", "masqueraded.go", "questions.go", "reset.go", "run.go", "stale.go", "work.go"}, []stage{
		{"judging", "dataplane/conntrack", "^(TestQuestions|TestFilterMatches|TestNodeAddressAlone|TestGoneTCP|TestJudgeUDP|TestDone|TestFaults|TestParsePart|TestMasquerade.*|TestResetAfterGrace)$", false, true},
		{"conntrack", "dataplane/conntrack", ".", false, true},
	}},
	{"dataplane/healthz", nil, []stage{
		{"healthz", "dataplane/healthz", ".", false, true},
	}},
	{"dataplane/loop", nil, []stage{
		{"loop", "dataplane/loop", ".", false, false},
		{"histories", "dataplane/dptest", "^TestPlanHistories$", false, false},
	}},
}
