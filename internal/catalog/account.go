package catalog

import (
	"encoding/json"
	"slices"
)

var (
	accountWeights = []weight{{names: balanceNames, score: 1}}
	quoteWeights   = []weight{{names: priceCentsNames, score: 2}, {names: priceNames, score: 1}}
)

// list reads a body that is a list.
func (a answer) list(names []string, weights []weight) ([]any, error) {
	value, err := a.decode()
	if err != nil {
		return nil, err
	}
	return a.items(value, names, weights)
}

// rawList reads a body that is a list, of which a usual one keeps its items as they were sent: [answer.item]
// decodes them.
func (a answer) rawList(names []string, weights []weight) ([]any, error) {
	value, err := decodeOutline(a.body)
	if err != nil {
		return nil, a.malformed(err.Error())
	}
	return a.items(a.redactor.redact(value), names, weights)
}

func (a answer) items(value any, names []string, weights []weight) ([]any, error) {
	items, ok := list(value, names, weights)
	if !ok {
		return nil, a.malformed("no list in the body")
	}
	return items, nil
}

// item is an item of a list, decoded.
func (a answer) item(item any) any {
	raw, ok := item.(json.RawMessage)
	if !ok {
		return item
	}
	value, _ := decode(raw) // the whole list was read before: it is JSON
	return a.redactor.redact(value)
}

// record reads a body that is one record.
func (a answer) record(wrappers []string, weights []weight) (record, error) {
	value, err := a.decode()
	if err != nil {
		return record{}, err
	}
	r, ok := unwrap(value, wrappers, weights)
	if !ok {
		return record{}, a.malformed("the body is not an object")
	}
	return r, nil
}

// decode reads the body. Wherever the key of the call stands in it, it is taken out: a held
// key is nothing for those who call under it.
func (a answer) decode() (any, error) {
	value, err := decode(a.body)
	if err != nil {
		return nil, a.malformed(err.Error())
	}
	return a.redactor.redact(value), nil
}

func readAccount(a answer) (Account, error) {
	r, err := a.record(accountWrappers, accountWeights)
	if err != nil {
		return Account{}, err
	}
	account := Account{ObserveTime: a.time}
	if foreign(r) {
		account.Extra = r.rest()
		return account, nil
	}
	if balance, ok := take(r, balanceNames, whole); ok {
		account.BalanceCents = &balance
	}
	account.Extra = r.rest()
	return account, nil
}

// readQuote reads a price. What can't be read beyond doubt is refused: a caller
// decides about money by it.
func readQuote(a answer) (Quote, error) {
	value, err := a.decode()
	if err != nil {
		return Quote{}, err
	}
	cents, ok := whole(value)
	if !ok {
		cents, ok = price(value)
	}
	if !ok {
		return Quote{}, a.malformed("no readable price: want one whole number of euro cents")
	}
	return Quote{PriceCents: cents, ObserveTime: a.time}, nil
}

func price(value any) (int64, bool) {
	r, ok := unwrap(value, quoteWrappers, quoteWeights)
	if !ok || foreign(r) {
		return 0, false
	}
	for _, names := range [][]string{priceCentsNames, priceNames} {
		if cents, found, ok := agreed(r, names); found {
			return cents, ok
		}
	}
	return 0, false
}

// agreed reads the amount that stands under one or more names. One that can't be read
// or says something else spoils the others.
func agreed(r record, names []string) (cents int64, found, ok bool) {
	ok = true
	for _, name := range names {
		member, there := r.get(name)
		if !there || member == nil {
			continue
		}
		amount, readable := whole(member)
		ok = ok && readable && (!found || amount == cents)
		cents, found = amount, true
	}
	return cents, found, ok
}

// foreign reports whether a record says that its amounts are not euro cents.
func foreign(r record) bool {
	if currency, _, ok := find(r, currencyNames, word); ok && fold(currency) != "eur" {
		return true
	}
	unit, _, ok := find(r, unitNames, word)
	return ok && !slices.Contains(centUnits, fold(unit))
}
