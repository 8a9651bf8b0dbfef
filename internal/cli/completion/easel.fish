function __easel_complete
    set -l words (commandline -opc)
    set -l lines ($words[1] complete-words $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $lines) -gt 0
        printf '%s\n' $lines
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c easel -f -a '(__easel_complete)'
