// Package node is what a node agent needs of the node it runs on, beside the rules:
// sysctls, the sizes and timeouts of connection tracking, and capabilities of its own.
package node
