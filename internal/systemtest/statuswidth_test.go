package systemtest

import (
	"encoding/json"
	"fmt"
	"testing"
)

// fullStatus is a JavaScript function that fills each table on the status page with values of maximum width.
const fullStatus = `(status => {
	const now = new Date().toISOString(), budgets = ['day', 'month'].map(period => ({ period, limitCents: 123456789, spentCents: 100000000, reservedCents: 0 })), age = 3600e9;
	const owners = ['studio', 'a-team-with-a-name-as-long-as-a-name-may-be-which-is-63-letters'];
	const error = 'HTTP 503, unavailable: the catalog is being maintained, and this text is as long as one that a catalog may write';
	status.concerns = [{ grave: true, text: error }];
	status.limiters = { a1b2c3d4: { closed: true, capped: true, pausedTill: now, waiting: [{ owner: owners[1], class: 'order', count: 12345, oldest: now }] } };
	status.watching.replicas = 12345;
	status.copies = true;
	status.ledger = { up: true, time: now, unknown: 12, oldestUnknown: age, named: true, contents: { waiting: 12345, failed: 12345, oldest: age },
		owners: owners.map(owner => ({
			owner, orders: 1234567, spentCents: 123456789, refundedCents: 12345678, reservedCents: 12345678, unconfirmedCents: 1234567, budgets, unknown: 123, oldestUnknown: age })),
		events: owners.map(owner => ({ owner, pending: 1234, oldest: age, givenUp: 123 })) };
	status.keys = ['healthy', 'credential_rejected'].map(condition => ({ key: 'a1b2c3d4', condition, answered: now, rate: 0.25, limit: 5, pausedTill: now, active: 12345, watches: 12345, swept: now, failures: 1234, lastError: error }));
	status.generations = [{ id: 'gen_0123456789abcdefghijklmnopqrstuvwxyz', model: 'a-vendor-of-models/its-longest-name-of-a-model-1.5-preview', state: 'succeeded', began: now, answered: now, nextPoll: now, watches: 12345, key: 'a1b2c3d4', failures: 12, lastError: error }];
	return status;
})`

// lostCells is a JavaScript expression that finds table cells that are partly hidden, and cells whose heading is
// hidden.
const lostCells = `(() => {
	const seen = box => box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= document.documentElement.clientWidth;
	const lost = [...document.querySelectorAll('td')].filter(td => {
		const th = td.closest('table').querySelectorAll('th')[td.cellIndex];
		const headed = seen(th.getBoundingClientRect()) ? th.textContent === td.dataset.heading : getComputedStyle(td, '::before').content === JSON.stringify(td.dataset.heading);
		return !headed || !seen(td.getBoundingClientRect()) || td.scrollWidth > td.clientWidth;
	});
	const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
	return JSON.stringify({ lost: lost.map(td => td.closest('table').id + ' ' + td.dataset.heading), wide, cells: document.querySelectorAll('td').length });
})()`

func TestStatusPageShowsAllCellsAtEachWindowWidth(t *testing.T) {
	t.Parallel()
	chromium(t)
	f := newFacility(t, 1)
	for _, scheme := range []string{"light", "dark"} {
		b := f.openStatus(scheme, "All is well")
		b.evaluate(`void (window.asked = window.fetch, window.fetch = async (...all) => { const full = ` + fullStatus + `(await (await asked(...all)).json()); return new Response(JSON.stringify(full)); })`)
		for _, width := range []int{1920, 1360, 1280, 1024, 800, 400} {
			b.callMethod(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 1600, "deviceScaleFactor": 1, "mobile": false})
			b.awaitTrue("a full page", `document.querySelectorAll('#owners tr').length === 3 && document.querySelector('#closed li')`)
			var found struct {
				Lost  []string
				Wide  bool
				Cells int
			}
			if err := json.Unmarshal([]byte(fmt.Sprint(b.evaluate(lostCells))), &found); err != nil {
				t.Fatal(err)
			}
			if len(found.Lost) > 0 || found.Wide || found.Cells < 50 {
				t.Errorf("%s, %d pixels: got %d cells, hidden cells %q; wider than the window: %v", scheme, width, found.Cells, found.Lost, found.Wide)
			}
			b.savePicture(fmt.Sprintf("status-full-%s-%d", scheme, width))
		}
		f.checkCalm(b)
	}
}
