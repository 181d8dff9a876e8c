// Package bench measures what a Service costs a node: own dataplanes and upstream
// kube-proxy, each as its own process, on one feed, one kernel and one network.
//
//	Run: world (namespaces, an API) -> for each size: objects
//	  -> for each row: cold start, flows, changes, changes at a rate, big Services,
//	     stale flows, switches, warm restarts, the kernel alone
//	  -> all rows that have started, side by side: first packets, connections, connect(2)
//	  -> Results -> Markdown table, benchstat lines
//
// The network is a node between a client and the pods:
//
//	client 192.0.2.100… --- node 192.0.2.1 | 198.18.0.1 --- pods 198.18.0.2
//	                                          10.128.0.0/9 all lives there
//
// What is measured, and how:
//
//	cold start     start of the process on a kernel without rules, in a node that is
//	               prepared as by its init container -> a sample of Services
//	               answers, the last one among them. For own dataplanes also the
//	               first Apply alone, which begins when the lists are there.
//	change         one endpoint of a Service replaced, one at a time, of the first 500
//	               Services, which have node ports, at every size: from the write
//	               at the API to the last notification of the kernel (nftables
//	               events) that answers it, the number of those (kernel
//	               operations), the CPU of the process and its children. It is
//	               over when the kernel has been quiet for 150 ms.
//	               A dataplane of eBPF has no notifications: its pinned maps are looked
//	               at, with pauses of 20 µs and what a timer adds, until all the Service's
//	               frontends lead to the new endpoint and not to the old one. It takes two
//	               lookups for each frontend and endpoint, of each change that is awaited;
//	               operations are not counted.
//	flows          One Service of eight is of UDP. Before the changes the client sends
//	               a datagram to each of these, from new ports, until the node remembers
//	               Config.Flows flows. After them, within 30 s, none may be left that
//	               leads to an endpoint that went.
//	at a rate      200 endpoints a second are replaced for Config.Steady, each of the
//	               next Service with a node port: from the write at the API to the commit
//	               of the kernel that brings the new endpoint's address, each change
//	               told apart by it. One that did not show before the Service's next
//	               is counted as coalesced, one that never shows is missing.
//	big Services   one endpoint of a Service with Config.Endpoints of them (slices of 100)
//	               replaced, as in a change; the Service is there for this step alone
//	switch         a Service's only endpoint replaced: from the write at the API to
//	               the first packet that reaches the new one
//	warm restart   SIGKILL, a switch meanwhile, and a start: from the start of the
//	               process to the first packet that follows the switch. Connections
//	               are opened from several addresses from before the kill until the
//	               switch is followed and Config.Connections were opened, at most
//	               5000 a second. Of eight, three go to a node port and one past the
//	               dataplane (the control); one of a hundred stays open and is asked
//	               at the end.
//	  no load      the same once before, without connections: as a cold start is
//
//	first packet   TCP handshake to random Services and straight to their endpoints, a
//	               new port each, 10 000 of both for every row. The rows are at work at
//	               the same time, each in a network of its own, and take turns in random
//	               order, one packet each, to the same Services: what else the machine
//	               does meets them all. The direct ones pass the row's rules as well,
//	               those for what is no Service's.
//	connections    the same rows, in turns of 200 ms in random order, each of Config.Rates
//	               in all: two threads open one connection after another, hear who
//	               answers and reset it; to random Services or straight to endpoints,
//	               from the client or from the node, of whose cgroup the threads are.
//	               Connections a second are the median of the turns; the CPU of one is
//	               what the whole host worked in all of them, by proc_stat(5), so the
//	               client's and the server's part is in it: what the dataplane adds is
//	               the difference to the direct ones.
//	connect(2)     of UDP sockets on the node, to an endpoint and to a Service in turn,
//	               100 pairs of a row at a time: nothing is sent, so that only what
//	               a dataplane does at sockets shows. Both ask it; the difference is
//	               that one finds a Service.
//
//	kernel alone   of own dataplanes with elements of nftables: all elements that the node has
//	               then are read, and written to a namespace of their own, in transactions
//	               of up to 16 MiB, with the tables and chains there before; the time is that of
//	               the kernel, which tells the listeners of each element, as at the start; a
//	               dataplane that writes smaller transactions may take less. The cold start
//	               is shown in that time as well: it has the process and its lists in it.
//
// Whether a Service answers is asked every 2 ms, and each time for 20 ms at most.
//
// Any step may take Config.Limit. A cold start that has not finished then ends the
// row, and so does what the dataplane does not do at all: its process ends by itself, a
// Service does not answer, its clean-up does not end. Of what is done many times, what
// was done by then is shown, and of how many; the next step follows all the same.
// kube-proxy is measured up to 10 000 Services in its nftables mode and 2 000 in its
// iptables mode unless Config.Beyond is set: more have taken machines down. A row that
// leaves the host less than 2 GiB of memory is ended.
// Absolute times depend on the machine; rows of one run are what may be compared.
// The API and the load share the machine's cores with the proxy.
//
// An nftables event is counted for every rule, set and element that changes,
// whoever writes it; iptables with the nft back end shows there too. A legacy
// iptables shows none, and neither does a dataplane that changes no rule for a
// changed endpoint (userspace): the time to the kernel is left empty.
package bench
