package nftables

import "os"

// SCTP tells whether this kernel tracks and translates SCTP in the process's
// network namespace (CONFIG_NF_CT_PROTO_SCTP, one option for both): connection
// tracking shows SCTP's timeouts only then. Conntrack must be loaded already
// (LoadConntrack). It is what plan.Options.SCTP asks for.
func SCTP() bool {
	_, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_sctp_timeout_established")
	return err == nil
}
