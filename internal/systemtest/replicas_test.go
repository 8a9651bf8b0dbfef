package systemtest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/easel-grpc/easel/internal/telemetry"
)

// startNATS starts a real server in this process. It is stopped by the test, or with it.
func startNATS(t *testing.T) (url string, stop func()) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	stop = sync.OnceFunc(func() { s.Shutdown(); s.WaitForShutdown() })
	t.Cleanup(stop)
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS is not ready")
	}
	return s.ClientURL(), stop
}

// startTwo starts two replicas over one catalog, of which both watch what the first has ordered.
func startTwo(t *testing.T, nats string, flags ...string) (one, two *facility) {
	t.Helper()
	one = newFacility(t, 1, flags...)
	one.served.Stop()
	other := *one
	two = &other
	one.serve(map[string]string{"EASEL_NATS_URL": nats})
	two.serve(map[string]string{"EASEL_NATS_URL": nats})
	ids := one.watch(one.keys[0], 2, 1)
	one.until("lease", func() bool { return one.measured("easel_leases_held") == 1 })
	for _, id := range ids {
		start(t, map[string]string{"EASEL_ADDR": two.grpc, "EASEL_API_KEY": two.keys[0]}, func(string, string) bool { return true }, "watch", id)
	}
	two.until("watch", func() bool { return two.measured("easel_watches_open") == 2 })
	return one, two
}

// babble publishes what nobody can read wherever replicas talk.
func babble(t *testing.T, url string) {
	t.Helper()
	conn, err := nats.Connect(url, nats.NoEcho())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard, err := conn.SubscribeSync("easel.>")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		m, err := heard.NextMsg(10 * time.Second)
		if err == nil {
			err = conn.Publish(m.Subject, []byte("babble"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasTellWhoPollsAndWhetherTheyHearEachOther(t *testing.T) {
	t.Parallel()
	url, stopNATS := startNATS(t)
	one, two := startTwo(t, url, "--dialect", "no-range", "--speed", "0.3") // they are seen running after some seconds
	two.until("state from the replica that polls", func() bool {
		return two.measured("easel_replicas_states_total", `outcome="told"`) > 0 && two.measured("easel_credentials_alone") == 0
	})
	for _, f := range []*facility{one, two} {
		if f.measured("easel_replicas_connected") != 1 || strings.Contains(f.status(), "NATS is not") {
			t.Errorf("a replica does not say that it is connected:\n%s", f.status())
		}
	}
	if two.measured("easel_leases_held")+two.measured("easel_leases_taken_total") != 0 {
		t.Error("both poll for all")
	}
	babble(t, url)
	two.until("word of messages that were refused", func() bool { return two.measured("easel_replicas_dropped_total", `reason="refused"`) > 0 })

	two.watch(two.keys[0], 1, 1) // which lasts to the end
	one.served.Stop()
	two.until("lease of the other", func() bool {
		return two.measured("easel_leases_held") == 1 && two.measured("easel_leases_taken_total") > 0
	})
	seen := map[string]bool{}
	note := func() {
		for _, row := range telemetry.Table {
			seen[row.Name] = seen[row.Name] || row.Shared && two.measured(row.Prometheus()) != 0
		}
	}
	note()
	stopNATS()
	two.until("word that NATS is gone", func() bool {
		return two.measured("easel_replicas_connected") == 0 && two.measured("easel_credentials_alone") == 1 && two.measured("easel_leases_held") == 0
	})
	two.until("the same on the status page", func() bool {
		return strings.Contains(two.status(), "NATS is not reached: each replica polls for itself")
	})
	note()
	for _, row := range telemetry.Table {
		if row.Shared && !seen[row.Name] {
			t.Errorf("nothing feeds %s", row.Name)
		}
	}
	two.withoutKeys(two.status())
}

func TestTheStatusPageSaysHowPollsAreShared(t *testing.T) {
	t.Parallel()
	chromium(t)
	url, stopNATS := startNATS(t)
	one, _ := startTwo(t, url)
	b := one.seen("light", "All is well")
	const line = `document.getElementById('replicas').innerText`
	b.until("word of the other replica", line+`.startsWith('Replicas over NATS: connected. This one polls under 1 of 1 key for all, and under 0 for itself alone.')`)
	b.picture("status-replicas-light")
	stopNATS()
	b.until("word that NATS is gone", line+`.startsWith('Replicas over NATS: not reached.')`)
	b.until("the same above", `document.querySelector('#verdict').innerText.includes('NATS is not reached')`)
	b.picture("status-replicas-alone-light")
	one.calm(b)
}
