// Package peer runs the contract's cases against upstream kube-proxy, as a
// process on the harness's API in the contract's network: a proof that the packet
// rows, written by hand from documents, say what Kubernetes does and not only
// what this project does.
//
// Where kube-proxy differs, a section of the case says how, and from which source
// that is known: kube-proxy, kube-proxy-nftables, kube-proxy-iptables. A row that
// differs without such a section fails, and so does a section that is not true.
package peer
