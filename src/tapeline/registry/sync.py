"""Make the serving folder what the tags say: the one command that follows tags of others, after checking them."""

from tapeline.registry import alignment
from tapeline.registry.registry import Registry, say
from tapeline.runtime.errors import InputError


def sync(registry: Registry, name: str) -> str:
    """Align a model's serving folder with the tags, and return one line about it.

    The folder is made if something is live. Raises `InputError`, and leaves the folder as it is, for a tag that cannot
    be read, one that does not count by the trust policy, an assignment whose verdict is not yes, a tag that contradicts
    its commit, and bytes that are not the registered ones.
    """
    with registry.alone():
        found = registry.state(name)
        if unread := [one.tag.name for one in found.quarantined]:
            raise InputError(f"serving/{name} was left as it is, since {unread[0]} cannot be read: delete that tag")
        registry.check_undisputed(found, registry.settings.served)
        for line in registry.lost(name).values():
            say(line)
        stage, serving = registry.settings.served, alignment.serving(registry, name)
        before = serving.integers()
        live, standing = found.live(stage), found.standing(stage)
        alignment.align(registry, name, make=live is not None)
        registry.note(name)
        if live is None:
            why = f"{name}@{standing.version} is {found.revoked[standing.version]}" if standing else "nothing is live"
            if otherwise := alignment.served_otherwise(registry, name):
                return f"{name}: {why} in {stage}, and {otherwise}: promote a version, or remove it"
            return f"{name}: {why}, so no version is served in {stage}"
        registry.tell_unverified()
        now = serving.integers()
        done = "is" if now == before else "is now"
        judged = "" if live.record else ", without a verdict, since plain GTO made the tag"
        return f"{name}: serving/{name}/{now[-1]} {done} {live.version} ({live.tag.name}{judged})"
