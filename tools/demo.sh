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
echo "One blank is the model's own answer. Two blanks depend on each other: the joint says how."
show fill "She plays the [MASK] [MASK] in a band." --top 6
show fill "A [MASK] of [MASK] and [MASK]." --top 4
echo
echo "A masked language model does not define that joint: rules that derive one differ."
show compare "The [MASK] was [MASK] by the police." --top 6
echo
echo "Try your own: $BIN/unmask fill \"Your [MASK] [MASK] here.\""
