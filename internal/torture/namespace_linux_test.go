package torture

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// insideVariable says that this process is alone with a network of its own.
const insideVariable = "EASEL_TORTURE_INSIDE"

// namespaces are a site in which each replica has a network of its own, with one line to the
// catalog and its callers and another to NATS. The kernel cuts them.
type namespaces struct {
	t       *testing.T
	holders [replicas]*exec.Cmd // of the networks
}

const townHost = "10.79.0.1" // where the catalog is

// hosts lets NATS listen at the end of each replica's line: nobody else is in this network.
func (*namespaces) hosts() (catalog, nats string) { return townHost, "0.0.0.0" }

// shell runs a command that sets up a network.
func shell(t *testing.T, line string, args ...any) {
	t.Helper()
	words := strings.Fields(fmt.Sprintf(line, args...))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

// build lays the lines of the i-th replica.
func (s *namespaces) build(i int) {
	holder := exec.Command("sleep", "1000")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	s.holders[i] = holder
	pid := holder.Process.Pid
	shell(s.t, "nsenter -t %d -n ip link set lo up", pid)
	for line, third := range map[string]int{"town": 77, "nats": 78} {
		shell(s.t, "ip link add %s%d type veth peer name %s netns %d", line, i, line, pid)
		shell(s.t, "ip addr add 10.%d.%d.1/24 dev %s%d", third, i, line, i)
		shell(s.t, "ip link set %s%d up", line, i)
		shell(s.t, "nsenter -t %d -n ip addr add 10.%d.%d.2/24 dev %s", pid, third, i, line)
		shell(s.t, "nsenter -t %d -n ip link set %s up", pid, line)
	}
	shell(s.t, "nsenter -t %d -n ip route add default via 10.77.%d.1", pid, i)
}

func (s *namespaces) launch(t *testing.T, i int, upstream, nats string, env ...string) (*process, error) {
	if s.holders[i] == nil {
		s.build(i)
	}
	path, err := program()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(nats)
	own := fmt.Sprintf("10.77.%d.2:0", i)
	return launch(t.Context(), "nsenter", facadeReady, append(env,
		"EASEL_UPSTREAM_URL=http://"+upstream+"/api/v1/api/catalog", "EASEL_UPSTREAM_INSECURE=true",
		"EASEL_GRPC_ADDR="+own, "EASEL_HTTP_ADDR="+own, "EASEL_ADMIN_ADDR="+own,
		fmt.Sprintf("EASEL_NATS_URL=nats://10.78.%d.1:%s", i, port),
	), "-t", fmt.Sprint(s.holders[i].Process.Pid), "-n", path, "serve")
}

func (s *namespaces) sever(i int) { shell(s.t, "ip link set nats%d down", i) }

func (s *namespaces) mend(i int) { shell(s.t, "ip link set nats%d up", i) }

// TestReplicasThatTheKernelCutsFromNATSGoOn runs itself in a network of its own, where it may
// lay lines and cut them.
func TestReplicasThatTheKernelCutsFromNATSGoOn(t *testing.T) {
	if os.Getenv(insideVariable) != "" {
		shell(t, "ip link set lo up")
		shell(t, "ip addr add %s/32 dev lo", townHost)
		f, owner := startReplicasAt(t, &namespaces{t: t})
		f.partition(owner)
		return
	}
	t.Parallel()
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no network can be laid: %v", err)
		}
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "3m", fmt.Sprint("-watches=", *watchesWanted))
	again.Env = append(os.Environ(), insideVariable+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("the kernel gives no namespaces here: %v", err)
	}
	t.Logf("inside:\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Error(err)
	}
}
