// Package haproxy turns an lbplan.LB and a profile into the text, files and
// socket commands of one HAProxy 2.6 process, and its answers and log lines
// back into values.
//
//	Render(Config)             -> haproxy.cfg
//	StateFile(Config, Running) -> the server states it starts from
//	Change(Running, Config)    -> nothing, runtime commands, or a reload
//	Client                     -> the stats socket and the master socket
//	ParseLog(line)             -> a finished connection or a server's UP/DOWN
//
// Everything but Client is pure.
//
// # No traffic before the first good check
//
// HAProxy 2.6 takes a server for UP until its first check says otherwise
// (init-state came with 3.1). Two ways around it, both tested here against the
// real program:
//
//   - At start and at a reload every server has a line in the server-state
//     file: op_state 0 (stopped) unless the process that is being replaced had
//     found it UP. The line must say check_status 1 (INI): with 0 (UNKNOWN)
//     HAProxy 2.6 never takes a check result for the server again. Checks
//     then run as usual and "rise" brings the server UP.
//   - A server added through the socket starts with weight 0, which takes no
//     traffic. Leaving maintenance makes it UP ("start OK but check
//     immediately", src/server.c), "set server … health down" makes it DOWN,
//     and only then does it get its weight. The first good check does the rest
//     inside HAProxy: nothing waits for the provider.
//
// # What a reload keeps
//
// Connections, listening sockets, UP/DOWN of every server. What HAProxy cannot
// carry over: a half-full fall counter and the phase of the checks, so a
// server that had failed 2 of 3 checks gets 3 new ones. Node changes therefore
// go through the socket; only changes of listeners, source ranges, affinity,
// check or profile reload. A server whose check changed (eTP Cluster to Local) stays in use
// if it was, until its first check under the new path has failed, whatever "fall" says: no
// client is turned away because nobody has asked yet. ClientIP
// affinity survives in its table, which the old process teaches the new one within
// milliseconds if it had 5 s to begin with; a client that comes before that is placed by
// the hash of its address.
//
// # Limits
//
// A load balancer takes MaxConns connections at a time. Who comes then waits in the queue
// of its socket, of which no log row tells; of the connections that it has, those that
// end meanwhile say so (ConnLine.Full).
//
// # No provider
//
// While the provider is away HAProxy 2.6 tries to reach its socket again without a pause
// (the forwarder of rings, src/sink.c), which takes a processor for each load balancer: one
// whose provider does not come back is to be ended, and one whose provider ends by itself has
// no priority any more until the next one listens there. One whose provider was killed keeps it until
// there is a next one.
// HAProxy 3.0 and 3.2 notice that it has ended by the next row, and lose that one (LosesFirstRow).
//
// # No server UP
//
// No rule of ours is involved: HAProxy closes at once and logs <NOSRV> with
// termination state SC. ("tcp-request connection reject" would close with a
// RST as well, but leaves no log row, so a lost request could not be
// attributed.) The client sees its connection accepted, then EOF or RST.
package haproxy
