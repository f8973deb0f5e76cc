"""`bus leave`: unregister; what the agent holds passes on."""


def command() -> int:
    """Unregister: what you hold passes to the next."""
    from interlock.adapters.cli.app import Given
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.short import show

    with Connection(Given.options) as connection:
        connection.agent()
        frame = connection.ask("supervisor", body={"type": "LEAVE"})
        show(frame, Given.options)
        return int(frame.get("exit", 0))
