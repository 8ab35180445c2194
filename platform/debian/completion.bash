# Completion for bash: the commands of pennygate, and of each its flags and words. Nothing is asked
# of the program or the store.

# Prints the command in the words before the cursor, if there is one yet.
_pennygate_command()
{
    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -c | --owner | --socket | --days | --through | --silence | --limit | --subject | --before)
            ((i++))
            ;;
        -*) ;;
        *)
            echo "${COMP_WORDS[i]}"
            return
            ;;
        esac
    done
}

_pennygate()
{
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command flags='-c' words=''
    local commands='init check stats serve pause resume adopt export import keys forgive clock maintain
        transcripts dashboard-password version help'

    COMPREPLY=()
    case $before in
    -c | --socket)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --owner)
        mapfile -t COMPREPLY < <(compgen -u -- "$current")
        return
        ;;
    --days | --through | --silence | --limit | --subject | --before) return ;;
    esac

    command=$(_pennygate_command)
    case $command in
    '' | help) words=$commands ;;
    export | import)
        if [ "$before" = "$command" ] && [[ $current != -* ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
        ;;
    init) flags='-c --owner' ;;
    check) flags='-c --through --silence' ;;
    stats) flags='-c --days --json --csv' ;;
    serve) flags='-c --socket' ;;
    keys)
        flags='-c --json --limit'
        words='add list revoke'
        ;;
    forgive) words='address account key model everyone anonymous bypass' ;;
    clock) words='reset' ;;
    maintain) flags='-c --stop' ;;
    transcripts)
        flags='-c --days --json --subject --before --all'
        words='list show export erase'
        ;;
    dashboard-password) words='remove' ;;
    esac
    # A word that has been given is not offered once more.
    [ "$before" = "$command" ] || [ -z "$command" ] || words=''
    mapfile -t COMPREPLY < <(compgen -W "$flags $words" -- "$current")
}

complete -F _pennygate pennygate
