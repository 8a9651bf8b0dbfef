//go:build unix

package torture

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/easel-grpc/easel/internal/proctest"
)

// ownsPeerOf reports whether the other end of a loopback connection belongs to the process p. It works only on
// Linux: /proc/net/tcp lists the socket of each connection, and /proc/PID/fd lists the sockets of each process.
func ownsPeerOf(p *proctest.Process, conn net.Conn) bool {
	socket, err := peerSocket(conn)
	if err != nil {
		return false
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Pid())) // empty if the process has exited
	return slices.ContainsFunc(files, func(file string) bool {
		link, err := os.Readlink(file)
		return err == nil && link == "socket:["+socket+"]"
	})
}

// peerSocket returns the socket number of the other end of a connection.
func peerSocket(conn net.Conn) (string, error) {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer table.Close()
	here, there := hexPort(conn.LocalAddr()), hexPort(conn.RemoteAddr())
	for lines := bufio.NewScanner(table); lines.Scan(); {
		// The second column is the local address, the third the remote address, and the tenth the socket number.
		if columns := strings.Fields(lines.Text()); len(columns) > 9 && strings.HasSuffix(columns[1], there) && strings.HasSuffix(columns[2], here) {
			return columns[9], nil
		}
	}
	return "", fmt.Errorf("no socket found at %s", conn.RemoteAddr())
}

func hexPort(addr net.Addr) string { return fmt.Sprintf(":%04X", addr.(*net.TCPAddr).Port) }
