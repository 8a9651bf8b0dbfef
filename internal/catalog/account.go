package catalog

import "slices"

var (
	accountWeights = []weight{{names: balanceNames, score: 1}}
	quoteWeights   = []weight{{names: priceCentsNames, score: 2}, {names: priceNames, score: 1}}
)

func readAccount(a answer) (Account, error) {
	value, err := a.parseBody()
	if err != nil {
		return Account{}, err
	}
	r, ok := unwrap(value, accountWrappers, accountWeights)
	if !ok {
		return Account{}, a.malformedError("the body is not an object")
	}
	account := Account{ObserveTime: a.time}
	if !inOtherUnits(r) {
		account.BalanceCents = optionalPointer(takeMember(r, balanceNames, asInteger))
	}
	account.ID = accountID(value, r)
	account.Extra = extraOf(r)
	return account, nil
}

// accountID returns the account ID that a response contains, or "" if it contains none. It ignores the ID of an API key,
// because an account can have several API keys.
func accountID(v JSON, r *Record) string {
	if id, _, ok := find(r, accountIDNames, asID); ok {
		return id
	}
	if top, ok := NewRecord(v); ok {
		for _, name := range accountHolders {
			if holder, ok := top.object(name); ok {
				id, _, _ := find(holder, ownerIDNames, asID)
				return id
			}
		}
	}
	return ""
}

// readQuote reads the price from the response to a quote request. It returns an error if the response contains no readable
// price, or several different prices. Easel must not guess, because it compares the price with limits and budgets.
func readQuote(a answer) (Quote, error) {
	value, err := a.parseBody()
	if err != nil {
		return Quote{}, err
	}
	cents, ok := asInteger(value)
	if !ok {
		cents, ok = readPrice(value)
	}
	if !ok {
		return Quote{}, a.malformedError("no readable price, or several different prices: want one whole number of euro cents")
	}
	return Quote{PriceCents: cents, ObserveTime: a.time}, nil
}

// readPrice reads the price, in cents, from the body of a quote. Members whose names contain the unit, such as costCents,
// take precedence over other members, such as cost. ok is false if there is no readable price, or if two members of the
// same precedence differ.
func readPrice(v JSON) (cents int64, ok bool) {
	r, ok := unwrap(v, quoteWrappers, quoteWeights)
	if !ok || inOtherUnits(r) {
		return 0, false
	}
	for _, names := range [][]string{priceCentsNames, priceNames} {
		if cents, found, ok := agreedAmount(r, names); found {
			return cents, ok
		}
	}
	return 0, false
}

// agreedAmount returns the amount of money, in cents, in the members of r with the given names. found is false if all
// these members are missing or null. ok is false if an amount is unreadable or if two amounts differ.
func agreedAmount(r *Record, names []string) (cents int64, found, ok bool) {
	ok = true
	for _, name := range names {
		member, there := r.get(name)
		if !there || member.IsNull() {
			continue
		}
		amount, readable := asInteger(member)
		ok = ok && readable && (!found || amount == cents)
		cents, found = amount, true
	}
	return cents, found, ok
}

// inOtherUnits reports whether a record specifies a currency other than euros, or a unit other than cents.
func inOtherUnits(r *Record) bool {
	if currency, _, ok := find(r, currencyNames, AsWord); ok && Fold(currency) != "eur" {
		return true
	}
	unit, _, ok := find(r, unitNames, AsWord)
	return ok && !slices.Contains(centUnits, Fold(unit))
}
