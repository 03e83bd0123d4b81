# Completion for fish: a file of this name in a folder of $fish_complete_path.
function __recapture_candidates
    set -l words (commandline -opc) (commandline -ct)
    $words[1] dev complete -- $words[2..-1] 2>/dev/null
end
function __recapture_has_candidates
    test -n "$(__recapture_candidates | string collect)"
end
complete -c recapture -n __recapture_has_candidates -f -a '(__recapture_candidates)'
