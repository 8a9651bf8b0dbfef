// Command apiserver runs the API server of Kubernetes over an etcd in the same process, on loopback, until it is
// stopped: `apiserver DIR` keeps everything in DIR, and writes DIR/kubeconfig for an administrator. It has no
// controllers and no nodes: objects are defaulted, checked, admitted and stored as in a cluster, and nothing runs.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("say apiserver DIR")
	}
	dir := arguments[0]
	store, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return err
	}
	defer store.Close()
	port, err := freePort()
	if err != nil {
		return err
	}
	if err := writeFiles(dir, port); err != nil {
		return err
	}
	server := app.NewAPIServerCommand()
	server.SetArgs([]string{
		"--etcd-servers=http://" + store.Clients[0].Addr().String(),
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--cert-dir=" + dir,
		"--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
		"--token-auth-file=" + filepath.Join(dir, "tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + filepath.Join(dir, "accounts.key"),
		"--service-account-signing-key-file=" + filepath.Join(dir, "accounts.key"),
	})
	return server.Execute() // until a signal
}

func startEtcd(dir string) (*embed.Etcd, error) {
	config, loopback := embed.NewConfig(), []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.Dir, config.LogLevel, config.UnsafeNoFsync = dir, "error", true
	config.ListenClientUrls, config.ListenPeerUrls = loopback, loopback
	return embed.StartEtcd(config)
}

// freePort is a port that nobody listens on now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// writeFiles writes the key of service accounts' tokens, the administrator's token and a kubeconfig with it.
func writeFiles(dir string, port int) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	token := rand.Text()
	for name, text := range map[string]string{
		"accounts.key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		"tokens.csv":   token + ",admin,1,system:masters\n",
		"kubeconfig": fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: admin}}]
clusters: [{name: here, cluster: {server: "https://127.0.0.1:%d", certificate-authority: %q}}]
users: [{name: admin, user: {token: %s}}]
`, port, filepath.Join(dir, "apiserver.crt"), token),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
