package ledger

import (
	"strconv"
	"strings"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// databaseFact is a key of the facts table. Its value identifies the PostgreSQL database in which the ledger was last opened.
const databaseFact = "database"

// databaseIdentity is an SQL expression that identifies a PostgreSQL database. Its value changes when pg_restore fills a
// database, because the database or the table gets a new OID.
const databaseIdentity = `((SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'orders'::regclass::oid)`

// init sets the replacers for the placeholders in statements. A placeholder is replaced with an expression that differs
// between PostgreSQL and SQLite, or with the value of a constant.
func init() {
	postgres.words = newReplacer("{now}", "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT", "{same database}", "(SELECT value FROM facts WHERE name = '"+databaseFact+"') = "+databaseIdentity, "{lock}", "FOR UPDATE", "{lock at once}", "FOR UPDATE NOWAIT", "{take}", "FOR UPDATE SKIP LOCKED",
		"{in ids}", "= ANY (ARRAY(SELECT json_array_elements_text($1::json)))", "{in times}", "= ANY (ARRAY(SELECT json_array_elements_text($2::json)::BIGINT))", "{ids}", "json_array_elements_text($1::json) AS ids (id)",
		"{bytes}", `COLLATE "C"`, "{labels}", "json_each_text($1::json) AS labels (name, value)", "{labels of order}", "(SELECT json_object_agg(name, value)::TEXT FROM labels WHERE order_id = orders.id AND orders.erased = 0)",
		"{month of order_time}", "(EXTRACT(EPOCH FROM date_trunc('month', to_timestamp(order_time / 1000000) AT TIME ZONE 'UTC')) * 1000000)::BIGINT")
	sqlite.words = newReplacer("{now}", "easel_now()", "{same database}", "TRUE", "{lock}", "", "{lock at once}", "", "{take}", "",
		"{in ids}", "IN (SELECT value FROM json_each($1))", "{in times}", "IN (SELECT value FROM json_each($2))", "{ids}", "(SELECT value AS id FROM json_each($1)) AS ids", " {bytes}", "", "{labels}", "(SELECT key AS name, value FROM json_each($1)) AS labels", "{labels of order}", "(SELECT json_group_object(name, value) FROM labels WHERE order_id = orders.id AND orders.erased = 0)",
		"{month of order_time}", "CAST(strftime('%s', order_time / 1000000, 'unixepoch', 'start of month') AS INTEGER) * 1000000")
}

// newReplacer returns a replacer for the placeholders in statements. replacements lists the placeholders whose replacements
// depend on the database system, each followed by its replacement.
func newReplacer(replacements ...string) *strings.Replacer {
	for name, constant := range map[string]int{
		"{most open}": MostOpen, "{most refused}": MostRefused,
		"{open}": int(lifecycle.Open), "{placed}": int(lifecycle.Placed), "{refused}": int(lifecycle.Refused),
		"{failed}": int(lifecycle.Failed), "{succeeded}": int(lifecycle.Succeeded), "{refunded}": int(lifecycle.Refunded),
		"{reserve}": int(Reserve), "{charge}": int(Charge), "{refund}": int(Refund), "{release}": int(Release), "{resolve}": int(Resolve),
		"{waiting}": int(ContentWaiting), "{copied}": int(ContentCopied), "{not copied}": int(ContentFailed), "{doomed}": int(ContentDoomed),
		"{pending}": int(EventPending), "{sent}": int(EventSent), "{given up}": int(EventGivenUp), "{kept}": int(EventKept),
	} {
		replacements = append(replacements, name, strconv.Itoa(constant))
	}
	return strings.NewReplacer(replacements...)
}
