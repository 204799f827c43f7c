"""Who may use which page: every route of the application has a rule here, and every rule is tried.

A route that is added without a rule fails the first test. The others go through all routes with
everybody: strangers, people and labellers of this and of another study, viewers, coordinators of
this and of another study, owners, and services with each kind of token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import sqlalchemy as sa

from counterplay.studio.store import tables as t
from counterplay.studio.web.security import form_token
from studio.guards import guard_config
from studio.studio_campaigns import PARTIES, campaign_config
from studio.web_house import Web, catalogue

pytestmark = pytest.mark.claim("28.15")

HOME = "/admin/studies/{study}"
ELICITATION, CAMPAIGN, GUARD, AUDIT = ("elicitation",), ("campaign",), ("guard",), ("audit",)
RUN = ELICITATION + CAMPAIGN + GUARD
Rule = tuple[str, tuple[str, ...]]
"""Who may, and for which kinds of studies."""
NOBODY: tuple[str, ...] = ()
RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/"): ("anybody", NOBODY),
    ("GET", "/healthz"): ("anybody", NOBODY),
    ("GET", "/readyz"): ("anybody", NOBODY),
    ("GET", "/metrics"): ("anybody", NOBODY),  # on this machine; see the test of its own
    ("GET", "/static/{name}"): ("anybody", NOBODY),
    ("GET", "/refused"): ("nobody", NOBODY),
    ("GET", "/j/{token}"): ("anybody", NOBODY),  # with the secret
    ("POST", "/j/{token}"): ("anybody", NOBODY),
    ("GET", "/admin/login"): ("anybody", NOBODY),
    ("POST", "/admin/login"): ("anybody", NOBODY),
    ("GET", "/admin/link/{secret}"): ("anybody", NOBODY),  # with the secret
    ("POST", "/admin/link/{secret}"): ("anybody", NOBODY),
    ("GET", "/p/{study}"): ("participant", ELICITATION),
    ("GET", "/p/{study}/receipt"): ("participant", ELICITATION),
    ("GET", "/p/{study}/data.json"): ("participant", ELICITATION),
    **{
        ("POST", f"/p/{{study}}/{word}"): ("participant", ELICITATION)
        for word in ("answer", "cannot-say", "undo", "stop", "consent", "withdraw")
    },
    **{
        ("GET", f"/l/{{study}}{rest}"): ("labeller", CAMPAIGN)
        for rest in ("", "/answers", "/ledger", "/events", "/image/{item:int}")
    },
    **{
        ("POST", f"/l/{{study}}/{word}"): ("labeller", CAMPAIGN)
        for word in ("answer", "skip", "undo", "correct", "withdraw")
    },
    ("GET", "/api/guard/{study}/serve"): ("serve", GUARD),
    ("GET", "/api/guard/{study}/state"): ("serve", GUARD),
    ("POST", "/api/guard/{study}/decisions"): ("serve", GUARD),
    ("POST", "/api/guard/{study}/outcomes"): ("report", GUARD),
    ("GET", "/admin"): ("admin", NOBODY),
    ("POST", "/admin/logout"): ("admin", NOBODY),
    ("GET", "/admin/reports"): ("all studies", NOBODY),
    ("GET", "/admin/reports/{name}"): ("all studies", NOBODY),
    ("GET", "/admin/audits"): ("admin", NOBODY),
    ("POST", "/admin/audits"): ("owner", NOBODY),
    ("GET", "/admin/audits/{study}"): ("see", AUDIT),
    ("GET", "/admin/audits/{study}/live"): ("see", AUDIT),
    ("GET", "/admin/audits/{study}/page"): ("see", AUDIT),
    ("GET", "/admin/audits/{study}/files/{name}"): ("see", AUDIT),
    ("GET", "/admin/studies/import"): ("owner", NOBODY),
    ("POST", "/admin/studies/import"): ("owner", NOBODY),
    ("GET", "/admin/studies/new"): ("owner", NOBODY),
    ("POST", "/admin/studies/new"): ("owner", NOBODY),
    ("GET", "/admin/studies/new/campaign"): ("owner", NOBODY),
    ("POST", "/admin/studies/new/campaign"): ("owner", NOBODY),
    **{
        (method, f"/admin/studies/new/{{key}}/{step}"): ("owner", NOBODY)
        for method in ("GET", "POST")
        for step in ("columns", "texts", "preview")
    },
    ("GET", HOME): ("see", RUN + AUDIT),
    ("GET", f"{HOME}/live"): ("see", RUN + AUDIT),
    ("GET", f"{HOME}/export"): ("see", RUN + AUDIT),
    ("GET", f"{HOME}/preview"): ("see", ELICITATION),
    **{("POST", f"{HOME}/{word}"): ("change", RUN + AUDIT) for word in ("open", "pause", "close")},
    ("GET", f"{HOME}/edit"): ("change", ELICITATION),
    ("POST", f"{HOME}/edit"): ("change", ELICITATION),
    ("POST", f"{HOME}/links"): ("change", ELICITATION),
    ("POST", f"{HOME}/links.csv"): ("change", ELICITATION),
    ("POST", f"{HOME}/open-link"): ("change", ELICITATION),
    ("POST", f"{HOME}/open-link/revoke"): ("change", ELICITATION),
    ("POST", f"{HOME}/parties/{{party}}/revoke"): ("change", ELICITATION),
    ("POST", f"{HOME}/parties/{{party}}/reissue"): ("change", ELICITATION),
    ("POST", f"{HOME}/import"): ("change", CAMPAIGN),
    ("POST", f"{HOME}/add"): ("change", CAMPAIGN),
    ("POST", f"{HOME}/change"): ("change", CAMPAIGN),
    ("POST", f"{HOME}/party-links"): ("change", CAMPAIGN),
    ("GET", f"{HOME}/labels.csv"): ("see", CAMPAIGN),
    ("GET", f"{HOME}/tasks.json"): ("see", CAMPAIGN),
    ("POST", f"{HOME}/take-down"): ("change", GUARD),
    ("POST", f"{HOME}/token"): ("change", GUARD),
    ("POST", f"{HOME}/token/revoke"): ("change", GUARD),
}
ADMINS = ("viewer", "other coordinator", "coordinator", "owner")
MAY = {
    "nobody": set(),
    "participant": {"participant"},
    "labeller": {"labeller"},
    "admin": set(ADMINS),
    "all studies": {"viewer", "owner"},
    "see": {"viewer", "coordinator", "owner"},
    "change": {"coordinator", "owner"},
    "owner": {"owner"},
}
EVERYBODY = ("stranger", "other participant", "participant", "other labeller", "labeller", *ADMINS)
UPLOADS = ("/import", "/add", "/admin/audits", "/admin/studies/new", "/admin/studies/new/campaign")


class Who(NamedTuple):
    """Somebody in a browser, with the token of the forms that are made for them."""

    client: httpx.Client
    csrf: str


class Scene:
    """Two studies of each kind, and everybody for the first of them."""

    def __init__(self, web: Web, folder: Path) -> None:
        self.web = web
        config, _ = campaign_config(folder, n=92)
        made = {"elicitation": web.config, "campaign": config, "guard": guard_config()}
        store = web.store
        self.studies = {
            kind: [store.new_study(kind, f"{kind} {i}", c, actor="a", open_now=True)
                   for i in range(2)]
            for kind, c in made.items()
        }  # fmt: skip
        from counterplay.studio.kinds.audit import audit_config

        told = audit_config({"table": ("t.csv", b"income,paid\n1,yes\n2,no\n")})
        self.studies["audit"] = [
            store.new_study("audit", f"audit {i}", told, actor="a", open_now=True) for i in range(2)
        ]
        for study in self.studies["audit"]:
            store.add_artifact("audit.html", "text/html", b"<p>page</p>", study=study)
        (web.settings.data / "reports").mkdir(exist_ok=True)
        (web.settings.data / "reports" / "r.html").write_text("<p>report</p>")
        self.people = {
            "participant": web.link(self.studies["elicitation"][0])[0],
            "other participant": web.link(self.studies["elicitation"][1])[0],
            "labeller": self._labeller(0),
            "other labeller": self._labeller(1),
        }
        self.party = self.people["participant"].public_id
        owner = self.who("owner", "elicitation")
        table = {"file": ("t.csv", catalogue(), "text/csv")}
        sent = owner.client.post("/admin/studies/new", data={"csrf": owner.csrf}, files=table)
        self.key = sent.headers["location"].split("/")[4]
        steps = (
            ("columns", {"direction-0": "name_of", "direction-1": "benefit",
                         "direction-2": "cost"}),
            ("texts", {"name": "Things", "asks": "", "consent": "", "target": "5"}),
        )  # fmt: skip
        for step, fields in steps:
            path = f"/admin/studies/new/{self.key}/{step}"
            done = owner.client.post(path, data={**fields, "csrf": owner.csrf})
            assert done.status_code == 303

    def _labeller(self, which: int) -> Any:
        study = self.studies["campaign"][which]
        return self.web.store.new_party(study, role="labeller", label=PARTIES[0])

    def who(self, name: str, kind: str) -> Who:
        """Log somebody in; an owner is always the same one."""
        store, key = self.web.store, self.web.store.server_key()
        client = self.web.client(follow_redirects=False)
        mine, other = self.studies[kind]
        if name in self.people:
            secret = store.new_session(party=self.people[name])
            theirs = store.study_by_id(self.people[name].study)
            for study in (mine, other, theirs):  # also where it was not made for
                client.cookies.set(f"cp_{study.public_id}", secret, path="/")
            return Who(client, form_token(key, secret, mine.public_id))
        if name in ADMINS:
            chosen = {"coordinator": mine, "other coordinator": other}.get(name)
            called = f"{name} of {chosen.public_id}" if chosen else f"the {name}"
            role = name.split()[-1]
            row = store.admin(called) or store.new_admin(
                called, password=None, role=role, study=chosen
            )
            secret = store.new_session(admin=row)
            client.cookies.set("cp_admin", secret, path="/")
            return Who(client, form_token(key, secret, "admin"))
        return Who(client, "0" * 64)

    def path(self, pattern: str, kind: str) -> str:
        """Fill in what the first study of a kind has."""
        study = self.studies[kind][0].public_id
        name = {"/static/{name}": "studio.css", "/admin/reports/{name}": "r.html"}
        given = {
            "study": study,
            "party": self.party,
            "key": self.key,
            "name": name.get(pattern, "audit.html"),
            "token": "x" * 43,
            "secret": "x" * 43,
        }
        return pattern.replace("{item:int}", "0").format(**given)

    def size(self) -> dict[str, int]:
        """How many rows each table has."""
        counted = (
            t.event,
            t.link,
            t.party,
            t.api_token,
            t.job,
            t.study,
            t.study_version,
            t.admin,
            t.audit_log,
            t.session,
            t.artifact,
        )
        with self.web.store.engine.connect() as connection:
            return {
                table.name: connection.execute(
                    sa.select(sa.func.count()).select_from(table)
                ).scalar_one()
                for table in counted
            }


@pytest.fixture(scope="module")
def scene(web: Web, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(web, tmp_path_factory.mktemp("scene"))


def routes(web: Web) -> dict[str, set[str]]:
    """The methods of every path of the application, whatever is included in it."""
    found: dict[str, set[str]] = {}
    waiting = list(web.app.routes)
    while waiting:
        route: Any = waiting.pop()
        router = getattr(route, "original_router", None)
        if router is not None:  # newer versions of FastAPI keep what they include apart
            waiting += router.routes
            continue
        assert route.path, f"a route that this test cannot see: {route}"
        found.setdefault(route.path, set()).update(route.methods)
    return found


def send(who: Who, method: str, path: str, *, csrf: bool) -> httpx.Response:
    """Ask as a form of the studio would; live numbers are not waited for."""
    if method != "POST":
        with who.client.stream(method, path) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.read()
            return answer
    fields = {"seq": "1", "asked": "1", "key": "k" * 43, "n": "1", "cap": "1"}
    fields |= {"csrf": who.csrf} if csrf else {}
    if path.endswith(UPLOADS):
        file = ("t.csv", b"a,b\n1,2\n", "text/csv")
        files = {"file": file, "table": file}
        return who.client.post(path, data=fields, files=files)
    if path.startswith("/api/"):
        return who.client.post(path, json=[])
    return who.client.post(path, data=fields)


def test_every_route_has_a_rule(web: Web) -> None:
    have = {(m, path) for path, methods in routes(web).items() for m in methods - {"HEAD"}}
    assert have == set(RULES)
    assert len(have) > 70


@pytest.mark.parametrize("name", EVERYBODY)
def test_everybody_sees_only_their_own(scene: Scene, name: str) -> None:
    """What is not theirs answers as if it were not there, and nothing is written."""
    tried = 0
    for (method, pattern), (rule, kinds) in RULES.items():
        if rule not in MAY or name in MAY[rule]:
            continue
        for kind in kinds or ELICITATION:
            who, path = scene.who(name, kind), scene.path(pattern, kind)
            before = scene.size()
            answer = send(who, method, path, csrf=True)
            told = (name, method, path, answer.status_code)
            assert scene.size() == before, told
            if pattern.startswith("/admin") and name not in ADMINS:
                if method == "GET":
                    assert answer.status_code == 303, told
                    assert answer.headers["location"] == "/admin/login", told
                else:
                    assert answer.status_code == 401, told
            else:
                assert answer.status_code == 404, told
            tried += 1
    assert tried > 10


@pytest.mark.parametrize("name", [name for name in EVERYBODY if name != "stranger"])
def test_everybody_sees_their_own_and_forms_need_their_token(scene: Scene, name: str) -> None:
    """Whoever may use a form is stopped by its missing token alone, and nothing is written."""
    for (method, pattern), (rule, kinds) in RULES.items():
        if rule not in MAY or name not in MAY[rule]:
            continue
        for kind in kinds or ELICITATION:
            who, path = scene.who(name, kind), scene.path(pattern, kind)
            if "/image/" in path:  # there are no pictures in this campaign
                continue
            before = scene.size()
            answer = send(who, method, path, csrf=False)
            told = (name, method, path, answer.status_code, answer.headers.get("location"))
            if method == "POST":
                assert answer.status_code == 403, told
                assert scene.size() == before, told
            else:
                assert answer.status_code == 200 or kind == "audit", told
                assert answer.status_code in (200, 303), told
                assert answer.headers.get("location") != "/admin/login", told


def test_pages_of_one_kind_are_not_there_for_another(scene: Scene) -> None:
    tried = 0
    for (method, pattern), (rule, kinds) in RULES.items():
        for kind in set(RUN + AUDIT) - set(kinds) if rule in ("see", "change") else ():
            who, path = scene.who("owner", kind), scene.path(pattern, kind)
            before = scene.size()
            answer = send(who, method, path, csrf=True)
            assert answer.status_code == 404, (method, path, kind, answer.status_code)
            assert scene.size() == before
            tried += 1
    assert tried > 40


@pytest.mark.parametrize("name", EVERYBODY)
def test_the_interface_of_a_guard_takes_its_tokens_alone(scene: Scene, name: str) -> None:
    mine, other = scene.studies["guard"]
    store = scene.web.store
    tokens = {scope: store.new_token(mine, [scope]) for scope in ("serve", "report")}
    foreign = store.new_token(other, ["serve", "report"])
    for (method, pattern), (rule, _) in RULES.items():
        if rule not in tokens:
            continue
        path = scene.path(pattern, "guard")
        wrong = "report" if rule == "serve" else "serve"
        for token, status in ((None, 401), ("x" * 43, 401), (foreign, 404), (tokens[wrong], 403)):
            who = scene.who(name, "guard")
            if token is not None:
                who.client.headers["authorization"] = f"Bearer {token}"
            before = scene.size()["event"]
            assert send(who, method, path, csrf=True).status_code == status, (path, status)
            assert scene.size()["event"] == before
        who = scene.who("stranger", "guard")
        who.client.headers["authorization"] = f"Bearer {tokens[rule]}"
        assert send(who, method, path, csrf=True).status_code in (200, 422), path


def test_other_methods_are_405_on_every_path(scene: Scene) -> None:
    who = scene.who("owner", "elicitation")
    before = scene.size()
    for pattern, methods in routes(scene.web).items():
        path = scene.path(pattern, "elicitation")
        for verb in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            if verb not in methods:
                assert who.client.request(verb, path).status_code == 405, (verb, path)
    assert scene.size() == before


def test_a_draft_belongs_to_the_owner_who_made_it(scene: Scene) -> None:
    store = scene.web.store
    second = store.new_admin("second owner", password=None, role="owner")
    with scene.web.client(follow_redirects=False) as client:
        client.cookies.set("cp_admin", store.new_session(admin=second), path="/")
        for step in ("columns", "texts", "preview"):
            answer = client.get(f"/admin/studies/new/{scene.key}/{step}")
            assert answer.status_code == 422
            assert "thing 0" not in answer.text
