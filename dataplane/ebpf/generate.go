package ebpf

// The programs of devices, and those of sockets, which have the same maps. Debian's clang-19 of the
// version in ci/versions.env, with its linux-libc-dev and libbpf-dev: `make generate`. TestGenerated says whether what is here is what that makes.
//
//go:generate go tool bpf2go -go-package ebpf -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -type route -type sample -type count -type tally plumb bpf/plumb.c
//go:generate go tool bpf2go -go-package ebpf -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" -no-global-types -type sent_key -type sent socket bpf/socket.c
