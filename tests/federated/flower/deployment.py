"""A real Flower deployment on this machine: SuperLink and SuperNodes as processes, with TLS."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

HOST = "127.0.0.1"
START_SECONDS = 90.0


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on right now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind((HOST, 0))
        return [s.getsockname()[1] for s in sockets]


def write_certificates(folder: Path) -> dict[str, Path]:
    """A certificate authority of our own and a certificate for 127.0.0.1 signed by it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

    def draft(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named("test authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = draft("test authority", ca_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    names = [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
    server = draft("localhost", key).add_extension(
        x509.SubjectAlternativeName(names), critical=False
    )
    pem = serialization.Encoding.PEM
    texts = {
        "ca": ca.sign(ca_key, hashes.SHA256()).public_bytes(pem),
        "certificate": server.sign(ca_key, hashes.SHA256()).public_bytes(pem),
        "key": key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    paths = {name: folder / f"{name}.pem" for name in texts}
    for name, text in texts.items():
        paths[name].write_bytes(text)
    return paths


def write_key(path: Path) -> Path:
    """A private key for SuperNode authentication, with the public key in ``PATH.pub``."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    path.with_suffix(".pub").write_bytes(public)
    return path


def wait_for(ready: Callable[[], bool], what: str, seconds: float) -> None:
    """Wait until ``ready()``; fail with a sentence instead of hanging."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.2)


class Deployment:
    """SuperLink, SuperNodes and runs of one test; everything lives below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = write_certificates(folder)
        self.port = free_ports(1)[0]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, IO[bytes]] = {}
        self.environment = self._environment()
        self._write_flower_config()

    def _environment(self) -> dict[str, str]:
        programs = Path(sys.executable).parent
        keep = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        return keep | {
            "FLWR_HOME": str(self.folder / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "PATH": f"{programs}{os.pathsep}{keep.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def _write_flower_config(self) -> None:
        home = self.folder / "flower"
        home.mkdir()
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\n'
            f'address = "{HOST}:{self.port}"\nroot-certificates = "{self.certificates["ca"]}"\n'
        )

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own, with its output in ``NAME.log``."""
        self.logs[name] = (self.folder / f"{name}.log").open("wb")
        self.processes[name] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.logs[name],
            stderr=subprocess.STDOUT,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
        )
        return self.processes[name]

    def start_superlink(self, *options: str) -> None:
        pem = self.certificates
        self.start(
            "superlink",
            *("flower-superlink", "--host", HOST, "--port", str(self.port)),
            *("--ssl-ca-certfile", str(pem["ca"]), "--ssl-certfile", str(pem["certificate"])),
            *("--ssl-keyfile", str(pem["key"]), "--disable-runtime-dependency-installation"),
            *options,
        )
        wait_for(self._answers, "the start of the SuperLink", START_SECONDS)

    def _answers(self) -> bool:
        if self.processes["superlink"].poll() is not None:
            raise RuntimeError(f"the SuperLink stopped:\n{self.text('superlink')}")
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1.0):
            return True
        return False

    def start_supernodes(self, *extra: str) -> None:
        """Start SuperNodes ``node0`` ... with these node configs, wait until all are connected."""
        for i, config in enumerate(extra):
            self.start_supernode(
                f"node{i}", f"partition-id={i} num-partitions={len(extra)} {config}"
            )
        for i in range(len(extra)):
            self.wait_for_node(f"node{i}")

    def start_supernode(self, name: str, config: str, *options: str) -> None:
        self.start(
            name,
            *("flower-supernode", "--superlink", f"{HOST}:{self.port}"),
            *("--root-certificates", str(self.certificates["ca"])),
            *("--host", HOST, "--port", str(free_ports(1)[0])),
            *("--node-config", config.strip(), *options),
        )

    def wait_for_node(self, name: str) -> None:
        wait_for(
            lambda: "SuperNode ID" in self.text(name), f"the connection of {name}", START_SECONDS
        )

    def register(self, key: Path) -> None:
        """Tell the SuperLink the public key of a SuperNode."""
        name = f"register-{key.stem}"
        process = self.start(
            name, "flwr", "supernode", "register", str(key.with_suffix(".pub")), "loopback"
        )
        wait_for(lambda: process.poll() is not None, name, START_SECONDS)
        if process.returncode:
            raise RuntimeError(self.text(name))

    def run(self, app: Path, **config: object) -> None:
        """``flwr run APP`` with these values of the run config."""
        overrides = " ".join(
            f"{key.replace('_', '-')}={value if not isinstance(value, str) else repr(value)}"
            for key, value in config.items()
        )
        command = ["flwr", "run", str(app), "loopback", "--stream"]
        self.start("run", *command, *(["--run-config", overrides] if overrides else []))

    def text(self, name: str) -> str:
        """What the process has printed so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """Kill a process and its children at once, without a chance to say goodbye."""
        process = self.processes[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def stop(self, name: str) -> None:
        """Ask a process to stop and wait until it is gone."""
        self.processes[name].terminate()
        wait_for(lambda: self.processes[name].poll() is not None, f"the end of {name}", 30.0)
        self.kill(name)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + 5.0
        while time.monotonic() < end and any(p.poll() is None for p in self.processes.values()):
            time.sleep(0.1)
        for name in self.processes:
            self.kill(name)
        for log in self.logs.values():
            log.close()


@contextlib.contextmanager
def deployment(folder: Path) -> Iterator[Deployment]:
    """A deployment that is gone afterwards, whatever happened."""
    here = Deployment(folder)
    try:
        yield here
    finally:
        here.close()
