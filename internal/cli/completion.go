package cli

import (
	"io"
	"strings"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says where the script goes.
func (*completionCmd) Help() string {
	return `Prints a script that makes the shell complete commands, flags, their values, models, inputs and renders. The last three are asked from the server, which gets a second to answer.

Examples:

  source <(easel completion bash)                             # for this shell; in ~/.bashrc for all
  easel completion zsh > "${fpath[1]}/_easel"                 # then start a new shell
  easel completion fish > ~/.config/fish/completions/easel.fish
`
}

// Each script hands the words over and takes the suggestions as they are. Without any, the
// shell offers files.
var completionScripts = map[string]string{
	"bash": `# bash completion for easel
_easel() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <("${COMP_WORDS[0]}" COMPLETING "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace 2>/dev/null || true # only a shell that completes has it
  fi
}
complete -o default -F _easel easel
`,
	"zsh": `#compdef easel
# zsh completion for easel
_easel() {
  local line
  local -a values shown
  for line in "${(@f)$("${words[1]}" COMPLETING "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    values+=("${line%%$'\t'*}")
    shown+=("${line/$'\t'/  -- }")
  done
  if (( $#values == 1 )) && [[ $values[1] == *= ]]; then
    compadd -S '' -a values
  elif (( $#values )); then
    compadd -l -d shown -a values
  else
    _files
  fi
}
if [[ $funcstack[1] == _easel ]]; then
  _easel
else
  compdef _easel easel
fi
`,
	"fish": `# fish completion for easel
function __easel_complete
    set -l words (commandline -opc)
    set -l begun (commandline -ct)
    set -l lines ($words[1] COMPLETING $words[2..-1] "$begun" 2>/dev/null)
    if test (count $lines) -gt 0
        printf '%s\n' $lines
    else
        __fish_complete_path "$begun"
    end
end
complete -c easel -f -a '(__easel_complete)'
`,
}

// Run prints the script.
func (c *completionCmd) Run(p *Program) error {
	_, err := io.WriteString(p.Stdout, strings.ReplaceAll(completionScripts[c.Shell], "COMPLETING", completing))
	return err
}
