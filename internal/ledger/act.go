package ledger

import "time"

// Action names an operation that is recorded in the audit log, such as an operator's change to the ledger or to a server.
// Callers' orders are not audited.
type Action string

// The actions.
const (
	ActResolve  Action = "order.resolve"
	ActErase    Action = "order.erase"
	ActDelete   Action = "generation.delete"
	ActReplay   Action = "events.replay"
	ActMigrate  Action = "ledger.migrate"
	ActCopy     Action = "ledger.copy"
	ActSeal     Action = "ledger.seal"
	ActUnseal   Action = "ledger.unseal"
	ActRestored Action = "ledger.restored"
	ActAdopt    Action = "content.adopt"
	ActFetch    Action = "content.fetch"
)

// By identifies the person or program that performed an action, and the source of the request.
type By struct {
	// Actor is the name of the operator, or of the user who runs a command. It is "anonymous" for an operator without a name,
	// and "easel" for an automatic change.
	Actor string
	// Origin is the source of the request: a client address, a file, a host or a database.
	Origin string
}

// Act is an audited action with its details.
type Act struct {
	By

	Action  Action
	Subject string // object that the action affects, such as an order; empty if the action affects the entire ledger
	// Was and Became are the values before and after the action. They are stored as JSON. Nil means no value. They must not
	// contain secrets or the content of orders.
	Was, Became any
}

// Deletion returns the [Act] that records an operator's request to delete another owner's generation.
func Deletion(by By, generation, owner, state string) Act {
	type known struct {
		Owner string `json:"owner,omitempty"`
		State string `json:"state,omitempty"`
		Asked string `json:"asked,omitempty"`
	}
	return Act{By: by, Action: ActDelete, Subject: generation, Was: known{Owner: owner, State: state}, Became: known{Asked: "deleted"}}
}

// AuditLine is a line of the audit log. The database rejects changes to existing lines.
type AuditLine struct {
	By

	ID          string
	Time        time.Time
	Action      Action
	Subject     string
	Was, Became string // values before and after the action, as JSON documents; empty means no value
}
