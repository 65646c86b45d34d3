package proc

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// looks are the requests of ptrace that change neither memory nor registers of another process: strace and the leak
// sanitizer need no others.
var looks = []uint32{unix.PTRACE_TRACEME, unix.PTRACE_PEEKTEXT, unix.PTRACE_PEEKDATA, unix.PTRACE_PEEKUSR,
	unix.PTRACE_CONT, unix.PTRACE_KILL, unix.PTRACE_SINGLESTEP, getRegs, getFPRegs, unix.PTRACE_ATTACH,
	unix.PTRACE_DETACH, unix.PTRACE_SYSCALL, unix.PTRACE_SETOPTIONS, unix.PTRACE_GETEVENTMSG, unix.PTRACE_GETSIGINFO,
	unix.PTRACE_GETREGSET, unix.PTRACE_SEIZE, unix.PTRACE_INTERRUPT, unix.PTRACE_LISTEN, unix.PTRACE_PEEKSIGINFO,
	unix.PTRACE_GETSIGMASK, unix.PTRACE_GET_SYSCALL_INFO}

// Only some architectures have names for them.
const getRegs, getFPRegs = 12, 14

// calls are the numbers of an architecture's system calls that reach into another process.
type calls struct{ arch, ptrace, write, getfd uint32 }

// known has what a machine runs: its own calls, and those of 32 bits. Other machines have their own alone.
var known = map[string][]calls{
	"amd64": {{unix.AUDIT_ARCH_X86_64, 101, 311, 438}, {unix.AUDIT_ARCH_I386, 26, 348, 438}},
	"arm64": {{unix.AUDIT_ARCH_AARCH64, 117, 271, 438}, {unix.AUDIT_ARCH_ARM, 26, 377, 438}},
}

// keepApart has this thread, and what it starts from now on, write into no other process's memory, and take no
// descriptor from one. The sandbox's /proc has to be for reading only besides.
func keepApart() error {
	sets, ok := known[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("it is not known how on %s; sandbox_write: [/proc] does without", runtime.GOARCH)
	}
	code := filter(sets)
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// Where the kernel keeps what a filter looks at.
const (
	numberAt  = 0
	archAt    = 4
	requestAt = 16 // the low half of the first argument, on a machine that counts from there
)

// otherABI marks x32's numbers on amd64; nobody needs them.
const otherABI = 0x40000000

// filter is a program that looks at each call. What it does not know it allows.
func filter(sets []calls) (code []unix.SockFilter) {
	add := func(op uint16, k uint32, yes, no int) {
		code = append(code, unix.SockFilter{Code: op, Jt: uint8(yes), Jf: uint8(no), K: k})
	}
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer  = unix.BPF_RET | unix.BPF_K
		refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	)
	for _, set := range sets {
		var body []unix.SockFilter
		outer := code
		code = nil
		add(load, numberAt, 0, 0)
		if set.arch == unix.AUDIT_ARCH_X86_64 {
			add(atLeast, otherABI, 0, 1)
			add(answer, refuse, 0, 0)
		}
		for _, n := range []uint32{set.write, set.getfd} {
			add(equal, n, 0, 1)
			add(answer, refuse, 0, 0)
		}
		add(equal, set.ptrace, 1, 0)
		add(answer, unix.SECCOMP_RET_ALLOW, 0, 0)
		add(load, requestAt, 0, 0)
		for _, request := range looks {
			add(equal, request, 0, 1)
			add(answer, unix.SECCOMP_RET_ALLOW, 0, 0)
		}
		add(answer, refuse, 0, 0)
		body, code = code, outer
		add(load, archAt, 0, 0)
		add(equal, set.arch, 0, len(body))
		code = slices.Concat(code, body)
	}
	add(answer, unix.SECCOMP_RET_ALLOW, 0, 0)
	return code
}
