#!/bin/sh
# What `make demo` shows; BIN is the folder of the installed `unmask`.
set -eu
show() {
    printf '\n$ unmask'
    for word in "$@"; do
        case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    "$BIN/unmask" "$@"
}
echo "Fill-mask pipelines answer each blank by itself (the column product). The same model, its blanks together:"
show fill "The [MASK] [MASK] at the casino." --top 4
printf '\nMultiplied, the two lists of a pipeline prefer "The man are" (13.5 %%).\n'
printf '\nWhole words, of one to three tokens; yours among them, with rank and odds; and what is certain:\n'
show fill "She plays the [WORD] in a band." --top 3 --answers "violin,trombone"
printf '\nHow far to trust it, every rule side by side: %s/unmask compare "The [MASK] was [MASK] by the police."\n' "$BIN"
echo "Try your own: $BIN/unmask fill \"Your [MASK] [MASK] here.\""
echo "Look at it:   $BIN/unmask serve     (a page on this machine: the joint as a map, chains as they run)"
