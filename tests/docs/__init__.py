"""The documents are tested: what they show is run, what they list is compared with the code.

`README.md` and `docs/*.md` are followed from top to bottom, each in an empty directory and one terminal. What a fenced
block is follows from its language:

    sh        commands, which must succeed
    console   `$ command` lines, each with lines that it prints; `…` stands for anything, and lines may be left out
    yaml      a tools file, or some fields of one tool
    json      a state machine
    python    a program
    text      a drawing

One comment right before a fence may say more:

    <!-- not run: the reason -->     only read: yaml must load, json must parse
    <!-- file: NAME -->              kept as a file for what follows, as the text tells the reader to
    <!-- typed: ["", "2"] -->        lines that are typed at the prompts of the command

`adapter dev` and `adapter serve` go on running in the background, on a port of their own, until the next of them.
Every state machine has to be called by a later `adapter call`.
"""
