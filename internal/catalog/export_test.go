package catalog

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tables contains the tables of names that a diagnosis may extend, by name.
var tables = map[string]*[]string{
	"accountWrappers": &accountWrappers, "modelWrappers": &modelWrappers, "generationWrappers": &generationWrappers, "quoteWrappers": &quoteWrappers,
	"modelListNames": &modelListNames, "generationListNames": &generationListNames, "modelIDNames": &modelIDNames, "generationIDNames": &generationIDNames,
	"balanceNames": &balanceNames, "priceCentsNames": &priceCentsNames, "statusNames": &statusNames, "fieldListNames": &fieldListNames,
	"costNames": &costNames, "createTimeNames": &createTimeNames, "modelOfNames": &modelOfNames, "inputsNames": &inputsNames, "centUnits": &centUnits,
	"modelNameNames": &modelNameNames, "descriptionNames": &descriptionNames,
}

// AddToRules adds a line to a table of the reading rules until the test ends.
func AddToRules(t *testing.T, tableName, line string) {
	t.Helper()
	name, state, isWord := strings.Cut(line, ": ")
	text, err := strconv.Unquote(name)
	if err != nil {
		t.Fatalf("%q is no Go: %v", line, err)
	}
	switch {
	case isWord && tableName == "states":
		states[text] = map[string]State{"StateRunning": StateRunning, "StateSucceeded": StateSucceeded, "StateFailed": StateFailed}[state]
		t.Cleanup(func() { delete(states, text) })
	case isWord && tableName == "fieldTypes":
		fieldTypes[text] = FieldString
		t.Cleanup(func() { delete(fieldTypes, text) })
	case isWord && tableName == "outputKinds":
		outputKinds[text] = OutputFile
		t.Cleanup(func() { delete(outputKinds, text) })
	default:
		table, known := tables[tableName]
		if !known {
			t.Fatalf("there is no table %s", tableName)
		}
		before := *table
		*table = append(slices.Clone(before), names(text)...)
		weigh()
		t.Cleanup(func() { *table = before; weigh() })
	}
}

// weigh updates the weights after a change to the tables.
func weigh() {
	accountWeights[0].names, modelWeights[0].names, modelWeights[1].names = balanceNames, modelIDNames, fieldListNames
	quoteWeights[0].names, quoteWeights[1].names = priceCentsNames, priceNames
	generationWeights[0].names, generationWeights[1].names = generationIDNames, statusNames
}

// TestTheRulesNameTheirTables checks that a diagnosis prints the table names that the source uses.
func TestTheRulesNameTheirTables(t *testing.T) {
	source, err := os.ReadFile("rules.go")
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Sorted(maps.Keys(tables))
	all = append(all, "states", "fieldTypes", "outputKinds")
	rules := reflect.ValueOf(Rules())
	for i := range rules.NumField() {
		switch field := rules.Field(i).Interface().(type) {
		case Rule:
			all = append(all, field.Table)
		case Form:
			all = append(all, field.Wrappers.Table)
		}
	}
	for _, name := range all {
		if !strings.Contains(string(source), "\t"+name+" ") && !strings.Contains(string(source), "var "+name+" ") {
			t.Errorf("%s has no table %s", RulesFile, name)
		}
	}
}

// TrustElsewhere sets the CAs that the client trusts for results on other hosts.
func (c *Client) TrustElsewhere(roots *x509.CertPool) {
	c.upstream.elsewhere.pool.base.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
