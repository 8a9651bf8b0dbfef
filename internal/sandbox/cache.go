package sandbox

import (
	"encoding/json"
	"sync"
	"sync/atomic"
)

// cacheBytes is about the most memory that a cache takes for rows and their texts.
const cacheBytes = 8 << 20

// cache is what a sandbox in memory has read or written lately, so that polls cost no query. A file has none,
// and nil holds nothing: without the line in [store.open] that makes one, each read asks the database.
//
// It changes only while the one connection is in hand. A transaction puts the rows that it changed here after
// its commit, a read that missed what it found, and both before they give the connection back. So the cache is
// never older than what anybody has seen of the database.
type cache struct {
	mu       sync.Mutex
	accounts map[string]account // by key hash
	rows     map[string]*kept   // by public id
	lists    map[int64][]string // by account: all public ids of its list, the newest first
	limit    int                // length of a list
	bytes    int                // of the rows, roughly
}

func newCache(limit int) *cache {
	return &cache{accounts: map[string]account{}, rows: map[string]*kept{}, lists: map[int64][]string{}, limit: limit}
}

// kept is a row with the texts that were made of it. A changed row is a new one.
type kept struct {
	generation
	texts [2]atomic.Pointer[spelling] // as a record and as an item of a sparse list
}

// spelling is the JSON of a row for one address of the catalog and one status; the status of a row may
// change by time alone.
type spelling struct {
	base, status string
	text         []byte
}

// spelled is the row as JSON in a dialect.
func (k *kept) spelled(d Dialect, base string, sparse bool) ([]byte, error) {
	slot := &k.texts[0]
	if sparse {
		slot = &k.texts[1]
	}
	status := d.status(&k.generation)
	if made := slot.Load(); made != nil && made.base == base && made.status == status {
		return made.text, nil
	}
	text, err := json.Marshal(d.generationRecord(&k.generation, status, base, sparse))
	if err == nil {
		slot.Store(&spelling{base, status, text})
	}
	return text, err
}

// size is about the memory of a row with both of its texts.
func (k *kept) size() int { return 1500 + 3*(len(k.inputs)+len(k.text)) }

func (c *cache) account(keyHash []byte) (account, bool) {
	if c == nil {
		return account{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	who, found := c.accounts[string(keyHash)]
	return who, found
}

func (c *cache) putAccount(keyHash []byte, who account) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accounts[string(keyHash)] = who
}

func (c *cache) dropAccount(keyHash []byte) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.accounts, string(keyHash))
}

func (c *cache) row(publicID string) *kept {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows[publicID]
}

// list is the list of an account as of one moment.
func (c *cache) list(account int64) ([]*kept, bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ids, found := c.lists[account]
	list := make([]*kept, 0, len(ids))
	for _, id := range ids {
		row := c.rows[id]
		found = found && row != nil
		list = append(list, row)
	}
	return list, found
}

// put takes rows as they are by now.
func (c *cache) put(rows ...*kept) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, row := range rows {
		if row.deleted {
			c.remove(row)
			delete(c.lists, row.account) // an older one moves up
			continue
		}
		c.store(row)
		c.enlist(row)
	}
}

// putList takes a whole list of an account.
func (c *cache) putList(account int64, list []*kept) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, 0, c.limit)
	for _, row := range list {
		c.store(row)
		ids = append(ids, row.publicID)
	}
	c.lists[account] = ids
}

// store keeps a row. A full cache starts anew.
func (c *cache) store(row *kept) {
	c.remove(row)
	if c.bytes+row.size() > cacheBytes {
		clear(c.rows)
		clear(c.lists)
		c.bytes = 0
	}
	c.rows[row.publicID] = row
	c.bytes += row.size()
}

func (c *cache) remove(row *kept) {
	if old := c.rows[row.publicID]; old != nil {
		delete(c.rows, row.publicID)
		c.bytes -= old.size()
	}
}

// enlist puts a row that is new on top of its account's list. One that is old stays where it is, or out of it.
func (c *cache) enlist(row *kept) {
	ids, known := c.lists[row.account]
	if !known || c.limit == 0 {
		return
	}
	if len(ids) > 0 {
		if top := c.rows[ids[0]]; top == nil || top.id >= row.id {
			return
		}
	}
	ids = append(ids[:min(len(ids), c.limit-1)], "")
	copy(ids[1:], ids)
	ids[0] = row.publicID
	c.lists[row.account] = ids
}
