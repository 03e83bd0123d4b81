# Completion for bash: bash-completion loads it by its name; or source it.
_recapture() {
  # COMP_WORDBREAKS may split --option=value and case.Test; ask for the whole words of the line instead.
  local line=${COMP_LINE:0:COMP_POINT} words=() candidate
  read -ra words <<<"$line"
  [[ $line = *[[:space:]] ]] && words+=('')
  local word=${words[${#words[@]} - 1]} split=${COMP_WORDS[COMP_CWORD]}
  local before=${word%"$split"}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    COMPREPLY+=("${candidate#"$before"}")
  done < <("${words[0]}" dev complete -- "${words[@]:1}" 2>/dev/null)
  # Nothing to offer: a file's name.
  ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$split")
}
complete -o filenames -F _recapture recapture
