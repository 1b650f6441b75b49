# fish: the program itself says what may follow; files where it says nothing

complete --command sendfilectl --no-files \
    --arguments "(env _SENDFILECTL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS=(commandline -cp) sendfilectl)" \
    --condition "env _SENDFILECTL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args _TYPER_COMPLETE_ARGS=(commandline -cp) sendfilectl"
