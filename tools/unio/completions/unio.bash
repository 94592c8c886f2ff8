# bash completion of unio. scripts/check-package compares the options with those of unio --help.

_unio() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=
  local subcommands='tour capabilities doctor echo lock resolve simulate trace walk cp rm bench' i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$subcommands -h --help --version" -- "$current")
    return
  fi
  if [[ ${COMP_WORDS[1]} == @(lock|simulate|trace) ]]; then # what comes after -- is a command of its own
    for ((i = 2; i < COMP_CWORD; ++i)); do
      if [[ ${COMP_WORDS[i]} == -- ]]; then
        if ((i + 1 == COMP_CWORD)); then
          mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
          mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
      fi
    done
  fi
  case ${COMP_WORDS[1]}:$previous in
    *:--driver) words='uring epoll' ;;
    *:--mode) words='awaited multiplexed lent poll-first linked spliced' ;;
    *:--algorithm) words='lock_files byte_ranges atomic_append memory_map' ;;
    *:--faults) words='short spurious latency eintr resets loss double reorder files all none' ;;
    *:--progress) words='auto bar json none' ;;
    *:--port | *:--address | *:--threads | *:--timeout | *:--entity | *:--server | *:--type | *:--depth | *:--seeds | *:--from | *:--latency | *:--keep | *:--seconds) return ;;
    *)
      if [[ $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames
        return
      fi
      ;;
  esac
  if [[ -z $words ]]; then
    case ${COMP_WORDS[1]} in
      tour) words='--json --driver' ;;
      capabilities) words='--operations' ;;
      doctor) words='--json' ;;
      echo) words='--port --address --mode --tls --driver --threads --shared --busy --timer' ;;
      lock) words='--shared --timeout --algorithm --entity --status --' ;;
      resolve) words='--server --timeout --ipv4 --ipv6 --explain' ;;
      simulate) words='--seeds --from --faults --latency --shrink --keep --files --input --' ;;
      trace) words='--seconds --print --record --show --' ;;
      walk) words='--summary --type --depth --threads --sort -0 --null --follow --cross-mounts' ;;
      cp) words='-f --replace --allow-incomplete --resume --durable --verify -n --dry-run -v --verbose --cross-mounts --threads --progress' ;;
      rm) words='-r -R --recursive -f --force -n --dry-run -v --verbose --cross-mounts --threads --progress' ;;
    esac
    words+=' -h --help'
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
} && complete -F _unio unio
