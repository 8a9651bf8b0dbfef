#compdef easel
_easel() {
  local -a lines
  lines=("${(@f)$("${words[1]}" complete-words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n ${lines[1]} ]]; then compadd -- ${lines%%$'\t'*}; else _files; fi
}
if [[ $funcstack[1] == _easel ]]; then _easel; else compdef _easel easel; fi
