package ledger

import (
	"context"
	"time"
)

// carryOutInTurn carries transactions of a file out one after the other, in one, as many as begin within [groupTime], and
// gives the others. What fails takes back nothing of those before it, unless the whole has ended with it: then they are among
// the others. Whoever goes breaks nothing off, as the group ends in time.
func carryOutInTurn(members []*member) (rest []*member) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(members[0].ctx), AnswerTime)
	defer cancel()
	begun, over := 0, false
	err := members[0].l.transact(ctx, func(s session) (err error) {
		if begun, err = runInTurn(ctx, s, members); err != nil {
			return err
		}
		over = true
		for _, m := range members[:begun] {
			close(m.decided)
		}
		return committed(s.commit(ctx))
	})
	for n, m := range members {
		switch {
		case m.failed && (over && err == nil || begun == 1): // for a reason of its own, or of what is written
		case n < begun && over, n == begun-1, begun == 0: // the commit has failed, or the last one that has begun has ended the whole
			m.err = err
		default:
			m.failed = false
			rest = append(rest, m)
			continue
		}
		m.end()
	}
	return rest
}

// runInTurn runs transactions one after the other, and gives how many have begun.
func runInTurn(ctx context.Context, s session, members []*member) (begun int, err error) {
	deadline, _ := ctx.Deadline()
	for began := time.Now(); begun < len(members); begun++ {
		if begun > 0 && time.Since(began) > groupTime {
			break
		}
		m := members[begun]
		own, cancel := context.WithDeadline(context.WithoutCancel(m.ctx), deadline)
		defer cancel()
		if err := m.runApart(own, s, len(members) == 1); err != nil { //nolint:contextcheck // the transaction has it
			return begun + 1, err
		}
	}
	return begun, ctx.Err() // before the commit, which nobody breaks off
}
