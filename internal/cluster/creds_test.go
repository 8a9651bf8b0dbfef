package cluster

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// realm is an operator of NATS with one account for replicas.
type realm struct {
	t                 *testing.T
	operator, account nkeys.KeyPair
	claims            *jwt.AccountClaims // of the account
	resolver          *server.MemAccResolver
	server            *server.Server
}

func newRealm(t *testing.T) *realm {
	t.Helper()
	r := &realm{t: t, operator: pairOf(t, nkeys.CreateOperator), resolver: &server.MemAccResolver{}}
	system := jwt.NewAccountClaims(publicOf(t, pairOf(t, nkeys.CreateAccount)))
	operator := jwt.NewOperatorClaims(publicOf(t, r.operator))
	operator.SystemAccount = system.Subject
	r.publish(system)
	r.account, r.claims = r.newAccount()
	r.server = startNATS(t, 0, func(o *server.Options) {
		o.TrustedOperators, o.SystemAccount, o.AccountResolver = []*jwt.OperatorClaims{operator}, system.Subject, r.resolver
	})
	return r
}

// newAccount makes an account that may use JetStream.
func (r *realm) newAccount() (nkeys.KeyPair, *jwt.AccountClaims) {
	r.t.Helper()
	pair := pairOf(r.t, nkeys.CreateAccount)
	claims := jwt.NewAccountClaims(publicOf(r.t, pair))
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	r.publish(claims)
	return pair, claims
}

// publish lets the server know an account.
func (r *realm) publish(claims *jwt.AccountClaims) (token string) {
	r.t.Helper()
	token, err := claims.Encode(r.operator)
	if err == nil {
		err = r.resolver.Store(claims.Subject, token)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// creds writes the credentials of a new user of an account, as nsc does.
func (r *realm) creds(account nkeys.KeyPair, change func(*jwt.UserClaims)) (file, user string) {
	r.t.Helper()
	pair := pairOf(r.t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(publicOf(r.t, pair))
	if change != nil {
		change(claims)
	}
	token, err := claims.Encode(account)
	if err != nil {
		r.t.Fatal(err)
	}
	seed, _ := pair.Seed()
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		r.t.Fatal(err)
	}
	return writeFile(r.t, text), claims.Subject
}

// mixed writes the token of one user beside the seed of another.
func (r *realm) mixed() string {
	r.t.Helper()
	file, _ := r.creds(r.account, nil)
	text, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		r.t.Fatal(err)
	}
	own, _ := pair.Seed()
	other, _ := pairOf(r.t, nkeys.CreateUser).Seed()
	return writeFile(r.t, bytes.Replace(text, own, other, 1))
}

func pairOf(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func publicOf(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func writeFile(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// journal is a log that is read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) count(what string) int { return strings.Count(j.String(), what) }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func TestReplicasThatLogInWithCredentialsShareTheirPolls(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	up := &upstream{states: map[string]catalog.State{"a": queued}}
	w := &world{t: t, up: up}
	var clusters []*Cluster
	var watches []*watching
	for range 2 {
		file, _ := r.creds(r.account, nil)
		one := w.joinNATS(Config{URL: r.server.ClientURL(), Login: Login{CredsFile: file}})
		clusters, watches = append(clusters, one.cluster), append(watches, one.watchAs(tenant, watch.Terminal, "a"))
	}
	eventually(t, "a leader", func() bool { return clusters[0].Stats().Leading+clusters[1].Stats().Leading == 1 })
	up.set(succeeded, "a")
	for _, s := range watches {
		eventually(t, "the end", func() bool { return s.last("a") == succeeded })
	}
	w.work.Wait()
	for i, c := range clusters {
		if n := c.Stats().Refused; n > 0 {
			t.Errorf("replica %d refused %d messages", i, n)
		}
	}
}

func TestARefusedLoginIsLoggedOnceWithSettingAndFix(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	unknown := pairOf(t, nkeys.CreateAccount) // unknown to the server
	unauthorized, _ := r.creds(unknown, nil)
	expired, _ := r.creds(r.account, func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Hour).Unix() })
	mixed := r.mixed()
	for name, file := range map[string]string{"of an unknown account": unauthorized, "expired": expired, "with another's seed": mixed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &journal{}
			c, err := New(Config{URL: r.server.ClientURL(), Login: Login{CredsFile: file}, Logger: log.logger()})
			if err != nil {
				t.Fatal(err) // it only begins to connect
			}
			defer c.Close()
			eventually(t, "the refusal", func() bool { return log.count("NATS refuses the login") > 0 })
			if log.count("EASEL_NATS_CREDS_FILE") == 0 || c.net.up() {
				t.Errorf("up %v, logged %s", c.net.up(), log)
			}
			again := c.net.(*natsNetwork).conn
			tries := again.Stats().Reconnects
			eventually(t, "two more tries", func() bool { return again.Stats().Reconnects >= tries+2 })
			if n := log.count("level=WARN"); n != 1 {
				t.Errorf("logged %d times: %s", n, log)
			}
			token, user, err := Login{CredsFile: file}.creds()
			if err != nil {
				t.Fatal(err)
			}
			seed, _ := user.Seed()
			if log.count(token)+log.count(string(seed)) > 0 {
				t.Error("the login stands in the log")
			}
		})
	}
}

func TestALoginFixedInItsFileWorksWithoutARestart(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	good, _ := r.creds(r.account, nil)
	file, _ := r.creds(pairOf(t, nkeys.CreateAccount), nil)
	log := &journal{}
	c, err := New(Config{URL: r.server.ClientURL(), Login: Login{CredsFile: file}, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn := c.net.(*natsNetwork).conn
	eventually(t, "three refusals", func() bool { return conn.Stats().Reconnects >= 3 })
	if err := os.WriteFile(file, []byte("half of a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "word of the broken file", func() bool { return log.count(file+" has no JWT") == 1 })
	text, _ := os.ReadFile(good)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the login", c.net.up)
	ctx, cancel := context.WithTimeout(t.Context(), tableTimeout)
	defer cancel()
	if _, err := c.net.leases().put(ctx, "k", nil, 0); err != nil {
		t.Error(err)
	}
}

func TestARevokedUserIsCutOffAndTheReasonIsLogged(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	file, user := r.creds(r.account, nil)
	log := &journal{}
	c, err := New(Config{URL: r.server.ClientURL(), Login: Login{CredsFile: file}, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "the login", c.net.up)
	r.claims.Revoke(user)
	r.publish(r.claims)
	account, err := r.server.LookupAccount(r.claims.Subject)
	if err != nil {
		t.Fatal(err)
	}
	r.server.UpdateAccountClaims(account, r.claims)
	eventually(t, "the refusal", func() bool { return !c.net.up() && log.count("NATS refuses the login") == 1 })
}

func TestMissingPermissionsAndJetStreamAreLoggedOnce(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	poor, claims := r.newAccount()
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{}
	r.publish(claims)
	mute, _ := r.creds(r.account, func(c *jwt.UserClaims) { c.Pub.Deny.Add("$JS.API.>") })
	without, _ := r.creds(poor, nil)
	for file, cure := range map[string]string{mute: "docs/replicas.md lists the subjects", without: "JetStream is not enabled for this account"} {
		log := &journal{}
		c, err := New(Config{URL: r.server.ClientURL(), Login: Login{CredsFile: file}, Logger: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		eventually(t, "the login", c.net.up)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), tableTimeout/4)
			if _, err := c.net.leases().put(ctx, "k", nil, 0); err == nil {
				t.Error("it got a lease")
			}
			cancel()
		}
		eventually(t, cure, func() bool { return log.count(cure) > 0 })
		if n := log.count("level=WARN"); n != 1 {
			t.Errorf("logged %d times: %s", n, log)
		}
	}
}
