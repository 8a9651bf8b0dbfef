package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/easel-grpc/easel/internal/terminal"
)

// profile is a server and how to prove oneself to it, kept in a file under a name. Its
// members are called as the flags.
type profile struct {
	Addr        string `json:"addr"`
	TLS         *bool  `json:"tls"`
	TLSCAFile   string `json:"tls-ca-file"`
	TLSCertFile string `json:"tls-cert-file"`
	TLSKeyFile  string `json:"tls-key-file"`
	APIKeyFile  string `json:"api-key-file"`
	APIKey      string `json:"api-key"` // only where nobody else can read the file

	name  string
	file  string // that it stands in
	asked bool   // named on the command line, which beats the environment
}

// profiles is what the file holds.
type profiles struct {
	Default  string              `json:"default"`
	Profiles map[string]*profile `json:"profiles"`
}

// defaultAddr is where a profile without an address leads.
const defaultAddr = "localhost:50051"

func (p *profile) address() string { return cmp.Or(p.Addr, defaultAddr) }

func (p *profile) hasKey() bool { return p.APIKeyFile != "" || p.APIKey != "" }

// value is what the profile says of a flag, and whether it says anything. Its key is no
// flag: where it may go depends on the address.
func (p *profile) value(flag string) (string, bool) {
	switch flag {
	case "addr":
		return p.Addr, p.Addr != ""
	case "tls":
		return strconv.FormatBool(p.TLS != nil && *p.TLS), p.TLS != nil
	case "tls-ca-file":
		return p.path(p.TLSCAFile), p.TLSCAFile != ""
	case "tls-cert-file":
		return p.path(p.TLSCertFile), p.TLSCertFile != ""
	case "tls-key-file":
		return p.path(p.TLSKeyFile), p.TLSKeyFile != ""
	}
	return "", false
}

// path is a path of the profile: below the home directory where it begins with ~/, else
// beside the file where it is not absolute.
func (p *profile) path(name string) string {
	if below, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, below)
		}
	}
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(p.file), name)
}

// profileFile is where the profiles are, "" where that can't be known.
func (p *Program) profileFile() string {
	if path := p.env(configFileVariable); path != "" {
		return path
	}
	if p.ConfigDir == nil {
		return ""
	}
	dir, err := p.ConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "easel", "config.json")
}

// loadProfile reads the profile of a name, or the default one for "". Without a file, and
// where no name is asked for, there is none and that is no error. Errors never repeat what
// is in the file, except for names.
func (p *Program) loadProfile(name string) (*profile, error) {
	path := p.profileFile()
	all, err := readProfiles(path)
	if errors.Is(err, fs.ErrNotExist) && name == "" && p.env(configFileVariable) == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the file of profiles %s: %s", path, reasonOf(err))
	}
	if name = cmp.Or(name, all.Default); name == "" {
		return nil, nil
	}
	chosen := all.Profiles[name]
	if chosen == nil {
		there := strings.Join(slices.Sorted(maps.Keys(all.Profiles)), ", ")
		return nil, fmt.Errorf("there is no profile %q in %s, which has: %s", name, path, cmp.Or(there, "none"))
	}
	chosen.name, chosen.file = name, path
	return chosen, nil
}

func readProfiles(path string) (profiles, error) {
	var all profiles
	text, err := os.ReadFile(path) //nolint:gosec // the user's own file
	if err != nil {
		return all, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		return all, plainJSONError(text, err)
	}
	for name, each := range all.Profiles {
		if each != nil && each.APIKey != "" && exposed(path) {
			return all, fmt.Errorf("others can read it, and it holds the key of %s; run: chmod 600 %s", name, terminal.ShellQuote(path))
		}
	}
	return all, nil
}

// plainJSONError says where a text is wrong, and nothing of what stands there.
func plainJSONError(text []byte, err error) error {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("line %d is no JSON", 1+bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n")))
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s has a value of the wrong type", wrong.Field)
	}
	if _, field, found := strings.Cut(err.Error(), "unknown field "); found {
		return errors.New("a profile has no member " + field)
	}
	return errors.New("it is not complete")
}

// exposed reports whether others than its owner can read a file. Where the system keeps no
// such bits, nobody can tell.
func exposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

// keyOfProfile is the key that a profile has for an address, and where it is from. It goes
// to the profile's own address and nowhere else: who says --addr means another server.
func (p *Program) keyOfProfile(addr string) (from, text string, err error) {
	chosen := p.profile
	switch {
	case chosen == nil || !chosen.hasKey():
		return "", "", nil
	case addr != chosen.address():
		p.unsentKey = chosen.name
		return "", "", nil
	case chosen.APIKey != "":
		return "profile " + chosen.name, chosen.APIKey, nil
	}
	content, err := os.ReadFile(chosen.path(chosen.APIKeyFile))
	if err != nil {
		return "", "", badUsage("profile "+chosen.name+", api-key-file: "+err.Error(), "")
	}
	return "profile " + chosen.name, string(content), nil
}

type profilesCmd struct {
	Output string `group:"output" short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
}

// Help shows the file.
func (*profilesCmd) Help() string {
	return `A profile keeps the address of a server and where the key for it is. Profiles stand in easel/config.json below the user's directory of settings ($XDG_CONFIG_HOME or ~/.config on Linux), or in the file that EASEL_CONFIG_FILE names:

  {
    "default": "dev",
    "profiles": {
      "dev":  {"addr": "localhost:50051", "api-key-file": "~/.easel-dev-key"},
      "prod": {"addr": "easel.example:443", "tls": true, "api-key-file": "prod.key"}
    }
  }

The members are addr, tls, tls-ca-file, tls-cert-file, tls-key-file, api-key-file and api-key. Paths are relative to the file. A key itself may stand in it, as api-key, only if nobody else can read the file (chmod 600).

What wins, in this order: a flag, the profile of --profile, an environment variable, the profile of EASEL_PROFILE, the default one. The key of a profile is sent to the address of that profile and nowhere else.

Examples:

  easel profiles
  easel account --profile prod
`
}

// listedProfile is what may be shown of a profile.
type listedProfile struct {
	Name    string `json:"name"`
	Addr    string `json:"addr"`
	TLS     bool   `json:"tls"`
	Key     string `json:"key,omitempty"` // where it is, never what it is
	Default bool   `json:"default"`
}

// Run lists the profiles.
func (c *profilesCmd) Run(p *Program) error {
	p.JSONErrors = c.Output == "json"
	path := p.profileFile()
	all, err := readProfiles(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badUsage("the file of profiles "+path+": "+reasonOf(err), "See easel help profiles.")
	}
	list := []listedProfile{}
	for _, name := range slices.Sorted(maps.Keys(all.Profiles)) {
		list = append(list, all.listed(name, path))
	}
	s := &session{Console: p.Console(), json: c.Output == "json"}
	switch {
	case s.json:
		s.PrintText(JSONText(map[string]any{"file": path, "profiles": list}))
	case len(list) == 0:
		s.Tell("There are no profiles in " + cmp.Or(path, "any file") + ". See easel help profiles.")
	default:
		s.printProfiles(list)
	}
	return s.Err()
}

func (all profiles) listed(name, file string) listedProfile {
	p := cmp.Or(all.Profiles[name], &profile{})
	p.file = file
	key := p.path(p.APIKeyFile)
	if p.APIKey != "" {
		key = "here"
	}
	return listedProfile{Name: name, Addr: p.address(), TLS: p.speaksTLS(), Key: key, Default: name == all.Default}
}

// speaksTLS reports whether the profile leads to TLS, by the rule of the flags.
func (p *profile) speaksTLS() bool {
	return p.TLS != nil && *p.TLS || p.TLSCAFile != "" || p.TLSCertFile != "" || p.TLSKeyFile != ""
}

func (s *session) printProfiles(list []listedProfile) {
	var rows [][]cell
	for _, p := range list {
		tls, chosen := "", ""
		if p.TLS {
			tls = "tls"
		}
		if p.Default {
			chosen = "default"
		}
		rows = append(rows, []cell{{terminal.OneLine(p.Name), terminal.Bold}, {terminal.OneLine(p.Addr), ""}, {tls, ""}, {terminal.OneLine(p.Key), ""}, {chosen, terminal.Dim}})
	}
	s.printTable([]string{"PROFILE", "ADDR", "TLS", "KEY", "USED"}, rows)
}
