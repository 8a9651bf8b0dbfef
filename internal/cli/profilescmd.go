package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/easel-grpc/easel/internal/terminal"
)

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
