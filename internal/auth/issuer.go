package auth

import (
	"net/url"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Issuer signs tokens (JWT) that prove the names of callers.
type Issuer struct {
	// Name is what its tokens say in iss, and Audience what they must have in aud.
	Name, Audience string
	// KeysFile or KeysURL has its public keys, a JSON Web Key Set.
	KeysFile, KeysURL string
	// CAFile has the authorities of KeysURL; "" is those of the system. TokenFile has a token that is sent there; "" is none.
	CAFile, TokenFile string
	// Line is where it stands.
	Line int
}

// Subject is whom a token names, and the issuer that says so. The zero value is nobody.
type Subject struct{ Issuer, Name string }

// addressForm is the form of an address that is called: https, or http on this machine.
var addressForm = regexp.MustCompile(`^(https://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])|http://(localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?([/?][!"$-~]*)?$`)

// mostName is the longest name of an issuer or subject.
const mostName = 2048

func (r *reader) readIssuers(n *yaml.Node) {
	for _, item := range r.items(n, "issuers") {
		issuer := r.readIssuer(item)
		if line, twice := r.lines["issuer "+issuer.Name]; twice {
			r.fault(item, "the issuer in line %d has this name already", line)
		}
		r.lines["issuer "+issuer.Name] = item.Line
		r.list.issuers = append(r.list.issuers, issuer)
	}
}

func (r *reader) readIssuer(n *yaml.Node) Issuer {
	members := r.members(n, "an issuer", "issuer", "audience", "jwks_file", "jwks_url", "ca_file", "token_file")
	if target(n).Kind != yaml.MappingNode {
		return Issuer{}
	}
	issuer := Issuer{
		Name: r.visible(members["issuer"], n, "issuer"), Audience: r.visible(members["audience"], n, "audience"),
		KeysFile: r.file(members["jwks_file"], "jwks_file"), KeysURL: r.keysURL(members["jwks_url"]),
		CAFile: r.file(members["ca_file"], "ca_file"), TokenFile: r.file(members["token_file"], "token_file"), Line: n.Line,
	}
	if (members["jwks_file"] == nil) == (members["jwks_url"] == nil) {
		r.fault(n, "an issuer must have jwks_file or jwks_url, and not both")
	}
	if members["jwks_url"] == nil && (members["ca_file"] != nil || members["token_file"] != nil) {
		r.fault(n, "ca_file and token_file need jwks_url")
	}
	return issuer
}

// visible is a text without spaces, which must be there.
func (r *reader) visible(at, of *yaml.Node, what string) string {
	if at == nil {
		r.fault(of, "%s is missing", what)
		return ""
	}
	text, ok := r.text(at, what)
	if ok && !isVisible(text) {
		r.fault(at, "%s must be a text of up to %d characters, without spaces", what, mostName)
	}
	return text
}

// file is the name of a file; "" where at is nil.
func (r *reader) file(at *yaml.Node, what string) string {
	if at == nil {
		return ""
	}
	name, ok := r.text(at, what)
	if ok && name == "" {
		r.fault(at, "%s must name a file", what)
	}
	return name
}

// keysURL is the address of keys; "" where at is nil.
func (r *reader) keysURL(at *yaml.Node) string {
	if at == nil {
		return ""
	}
	address, ok := r.text(at, "jwks_url")
	if !ok {
		return ""
	}
	if _, err := url.Parse(address); err != nil || !addressForm.MatchString(address) { // an error that repeats the address
		r.fault(at, "jwks_url must be https://…, or http://… on this machine, without a user and a fragment")
	}
	return address
}

// readSubjects reads the subjects of the last caller.
func (r *reader) readSubjects(members map[string]*yaml.Node, caller *yaml.Node) {
	subjects := r.items(members["subjects"], "subjects")
	issuer := r.issuerOf(members["issuer"], caller, len(subjects) > 0)
	for _, at := range subjects {
		text, ok := r.text(at, "a subject")
		switch {
		case !ok:
		case !isVisible(text):
			r.fault(at, "a subject must be a text of up to %d characters, without spaces", mostName)
		case r.proves(at, "subject "+issuer+" "+text, "subject"):
			r.list.subjects[Subject{issuer, text}] = len(r.list.all) - 1
		}
	}
}

// issuerOf is the issuer of a caller's subjects: the only one, or the one that the caller names.
func (r *reader) issuerOf(at, caller *yaml.Node, needed bool) string {
	if at == nil {
		if needed && len(r.list.issuers) != 1 {
			r.fault(caller, "subjects need an issuer: issuers must have it, and where there are several the caller must name its issuer")
			return ""
		}
		if needed {
			return r.list.issuers[0].Name
		}
		return ""
	}
	name, ok := r.text(at, "issuer")
	if _, known := r.lines["issuer "+name]; ok && !known {
		r.fault(at, "there is no such issuer: issuers must have it")
	}
	return name
}

// isVisible reports whether a text is visible ASCII and not too long.
func isVisible(text string) bool { return visibleForm.MatchString(text) && len(text) <= mostName }

var visibleForm = regexp.MustCompile(`^[!-~]+$`)
