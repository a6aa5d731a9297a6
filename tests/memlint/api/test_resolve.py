"""The versions that a project's files and environments tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memlint.api.target_versions import Resolved
from memlint.api.versions import parse_version
from memlint.project.resolve import Resolver


def _resolver(**environ: str) -> Resolver:
    return Resolver(environ=environ, path=[])


def _version(folder: Path, package: str = "trl", **environ: str) -> Resolved:
    return _resolver(**environ).resolve(folder).version(package)


def _environment(folder: Path, **versions: str) -> Path:
    packages = folder / "lib" / "python3.11" / "site-packages"
    for name, version in versions.items():
        (packages / f"{name}-{version}.dist-info").mkdir(parents=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a script folder in it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "scripts").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("requirements.txt", "torch\n# trl==0.1\ntrl[peft] == 0.12.1  # pinned\n", "0.12.1"),
        ("requirements.txt", "trl @ git+https://example.org/trl.git@v0.9.4#egg=trl\n", "0.9.4"),
        ("requirements-train.txt", "trl==0.9.6 ; python_version > '3.8'\n", "0.9.6"),
        ("requirements.txt", "trl==0.8.6 --hash=sha256:abc \\\n", "0.8.6"),
        ("requirements.txt", "trlx==9\ntrl~=0.11.0\n", "0.11.4"),
        ("uv.lock", '[[package]]\nname = "trl"\nversion = "0.13.0"\nsource = {}\n', "0.13.0"),
        (
            "poetry.lock",
            '[[package]]\nname = "trl"\nversion = "0.8.1"\ndescription = ""\n',
            "0.8.1",
        ),
        ("pdm.lock", '[[package]]\nname = "trl"\nversion = "0.14.0"\n', "0.14.0"),
        ("constraints.txt", "trl==0.11.1\n", "0.11.1"),
        ("Pipfile", '[[source]]\nurl = "x"\n\n[packages]\ntrl = "==0.11.1"\n', "0.11.1"),
        ("Pipfile", '[packages]\ntrl = {git = "https://x/trl", ref = "v0.11.1"}\n', "0.11.1"),
        ("Pipfile.lock", '{"default": {"trl": {"hashes": [], "version": "==0.11.1"}}}', "0.11.1"),
        ("pyproject.toml", '[project]\ndependencies = ["trl[vllm]==0.20.0", "x"]\n', "0.20.0"),
        ("pyproject.toml", '[dependency-groups]\ntrain = ["trl>=0.15,<0.16"]\n', "0.15.2"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntrl = "^0.12"\n', "0.12.2"),
        (
            "pyproject.toml",
            '[tool.poetry.group.train.dependencies]\ntrl = {version = "0.11.*"}\n',
            "0.11.4",
        ),
        ("environment.yml", "dependencies:\n  - conda-forge::trl=0.10.1=pyhd8\n", "0.10.1"),
        ("environment.yaml", "dependencies:\n- pip:\n  - trl==0.9.2\n", "0.9.2"),
        ("setup.cfg", "[options]\ninstall_requires =\n    trl>=0.7,<0.8\n", "0.7.11"),
        ("setup.py", "setup(install_requires=['trl==0.7.4', 'x'])\n", "0.7.4"),
        ("requirements.txt", "git+https://github.com/huggingface/trl@v0.12.0\n", "0.12.0"),
        (
            "requirements.txt",
            "-e git+https://github.com/huggingface/trl.git@v0.12.1#egg=trl\n",
            "0.12.1",
        ),
        ("requirements.txt", "git+ssh://git@github.com/me/my-trl.git@v0.11.4#egg=trl\n", "0.11.4"),
        (
            "requirements.txt",
            "https://github.com/huggingface/trl/archive/refs/tags/v0.9.6.zip\n",
            "0.9.6",
        ),
        ("requirements.txt", "wheels/trl-0.10.1-py3-none-any.whl\n", "0.10.1"),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["trl>=0.8"]\n[tool.uv.sources]\n'
            'trl = { git = "https://github.com/huggingface/trl", tag = "v0.12.0" }\n',
            "0.12.0",
        ),
        (
            "environment.yml",
            "dependencies:\n  - pip:\n    - git+https://github.com/huggingface/trl@v0.13.0\n",
            "0.13.0",
        ),
        (
            "Dockerfile",
            "FROM x\nRUN apt update && \\\n    pip install --no-cache-dir \\\n"
            "    # pinned\n    peft 'trl[peft]==0.12.2' \\\n    datasets && rm -rf /tmp/x\n",
            "0.12.2",
        ),
        ("train.dockerfile", "RUN uv pip install --system trl==0.15.1\n", "0.15.1"),
        ("Dockerfile", "RUN conda install -y trl=0.10.1=py_0 -c conda-forge\n", "0.10.1"),
        ("Dockerfile", 'ARG TRL="0.18.0"\nRUN pip install "trl==${TRL}" x\n', "0.18.0"),
        ("requirements/base.txt", "torch\ntrl==0.17.0\n", "0.17.0"),
        ("requirements-dev.lock", "torch==2.6.0\ntrl==0.17.0\n", "0.17.0"),
        ("docs/requirements.train.lock", "torch==2.6.0\ntrl==0.17.0\n", "0.17.0"),
        ("configs/requirements.txt", "torch==2.6.0\ntrl==0.17.0\n", "0.17.0"),
    ],
)
def test_files_tell_versions(project: Path, name: str, text: str, version: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(text)
    resolved = _version(project / "scripts")
    assert parse_version(resolved.version) == parse_version(version)
    assert resolved.source == str(project / name)
    assert not resolved.assumed


def test_a_project_s_own_manifest_stands_above_one_in_configs(project: Path) -> None:
    (project / "configs").mkdir()
    (project / "configs/requirements.txt").write_text("trl==0.17.0\n")
    (project / "Dockerfile").write_text("RUN pip install trl==0.12.2\n")
    assert _version(project).version == "0.12.2"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_requirements_are_read_as_powershell_and_notepad_write_them(
    project: Path, encoding: str
) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (project / "requirements.txt").write_bytes(f"{mark}trl==0.12.2\r\n".encode(encoding))
    assert _version(project).version == "0.12.2"


def test_a_base_image_names_its_library(project: Path) -> None:
    (project / "Dockerfile").write_text("FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-devel\n")
    assert _version(project, "torch").version == "2.4.0"


def test_the_nearest_file_decides_and_a_lock_goes_first(project: Path) -> None:
    (project / "requirements.txt").write_text("trl==0.9.6\npeft==0.11.1\n")
    (project / "uv.lock").write_text('[[package]]\nname = "trl"\nversion = "0.13.0"\n')
    assert _version(project / "scripts").version == "0.13.0"
    (project / "scripts" / "requirements.txt").write_text("trl==0.8.6\n")
    assert _version(project / "scripts").version == "0.8.6"
    assert _version(project / "scripts", "peft").version == "0.11.1"


def test_included_requirement_files_are_read(project: Path) -> None:
    (project / "requirements.txt").write_text("-r base/pins.txt\n")
    (project / "base").mkdir()
    (project / "base" / "pins.txt").write_text("trl==0.10.1\n-r ../requirements.txt\n")
    assert _version(project).version == "0.10.1"


def test_a_bare_name_tells_nothing(project: Path) -> None:
    (project / "requirements.txt").write_text("trl\ntrl @ git+https://example.org/trl.git\n")
    assert _version(project).assumed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "trl @ git+https://example.org/trl.git@69ad852\n"),
        ("requirements.txt", "git+https://github.com/huggingface/trl@0123456789abcdef#egg=trl\n"),
        ("setup.py", f'    "trl @ git+https://example.org/trl.git@{"69ad852e" * 5}",\n'),
        ("pyproject.toml", '[tool.uv.sources]\ntrl = {git = "https://x/trl", rev = "69ad852e"}\n'),
        ("Dockerfile", "RUN pip install git+https://github.com/huggingface/trl.git@69ad852e\n"),
    ],
)
def test_a_commit_may_be_of_any_release(project: Path, name: str, text: str) -> None:
    (project / name).write_text(text)
    resolved = _version(project)
    assert resolved.is_open
    assert resolved.note == f"{project / name} names a commit"
    _environment(project / ".venv", trl="1.2.0", transformers="4.49.0")
    resolved = _version(project)
    assert (resolved.version, resolved.source) == ("0.14.0", "newest of 2025-02-17")


def test_an_environment_tells_what_a_commit_is(project: Path) -> None:
    pin = "trl @ git+https://example.org/trl.git@69ad852\n"
    (project / "requirements.txt").write_text(pin)
    _environment(project / ".venv", trl="0.16.0.dev0")
    resolved = _version(project)
    assert resolved.version == "0.16.0.dev0"
    assert not resolved.is_open


def test_libraries_go_by_the_file_that_pins_trl(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers>=4.32,<4.38\npeft==0.9.0\n")
    (project / "environment.yml").write_text(
        "dependencies:\n- pip:\n  - trl==0.18.1\n  - transformers==4.52.4\n  - peft>=0.8\n"
    )
    assert _version(project, "transformers").version == "4.52.4"
    assert _version(project, "transformers").is_open  # the files disagree
    assert not _version(project).is_open
    assert _version(project, "peft").version == "0.9.0"
    (project / "environment.yml").write_text(
        "dependencies:\n- pip:\n  - trl>=0.18.1\n  - transformers==4.52.4\n"
    )
    assert _version(project, "transformers").version == "4.37.2"


def test_files_above_the_repository_are_strangers(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.9.6\n")
    inner = tmp_path / "project"
    (inner / ".git").mkdir(parents=True)
    assert _version(inner).assumed


def test_without_a_repository_the_working_folder_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.9.6\n")
    (tmp_path / "loose" / "recipes").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _version(tmp_path / "loose").assumed
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    assert _version(tmp_path / "loose" / "recipes").version == "0.9.6"  # seen from elsewhere
    assert _version(tmp_path).version == "0.9.6"
    monkeypatch.chdir(tmp_path / "loose")
    assert _version(tmp_path / "loose" / "recipes").assumed
    monkeypatch.chdir(tmp_path)
    assert _version(tmp_path / "loose" / "recipes").version == "0.9.6"


def test_the_projects_environment_is_read_as_files(project: Path) -> None:
    _environment(project / ".venv", trl="0.15.1", transformers="4.48.3")
    resolved = _version(project / "scripts")
    assert resolved == Resolved("0.15.1", str(project / ".venv"))
    assert _version(project / "scripts", "transformers").version == "4.48.3"


def test_an_active_environment_without_trl_is_passed_over(project: Path, tmp_path: Path) -> None:
    hook = _environment(tmp_path / "hook", rich="13.0")
    conda = _environment(tmp_path / "conda", trl="0.16.0")
    resolved = _version(project, VIRTUAL_ENV=str(hook), CONDA_PREFIX=str(conda))
    assert resolved == Resolved("0.16.0", str(conda))


def test_a_pin_goes_before_the_environment_and_a_range_after(project: Path) -> None:
    _environment(project / ".venv", trl="0.15.1")
    (project / "requirements.txt").write_text("trl==0.9.6\n")
    assert _version(project).version == "0.9.6"
    (project / "requirements.txt").write_text("trl>=0.9\n")
    resolved = _version(project)
    assert resolved.version == "0.15.1"
    assert resolved.source == str(project / ".venv")
    assert resolved.note.startswith("admitted by >=0.9 in ")
    (project / "requirements.txt").write_text("trl<0.10\n")
    assert _version(project).version == "0.9.6"


def test_what_is_installed_beside_the_program_comes_last(project: Path, tmp_path: Path) -> None:
    site = _environment(tmp_path / "own", trl="0.14.0") / "lib" / "python3.11" / "site-packages"
    resolved = Resolver(environ={}, path=[str(site)]).resolve(project).version("trl")
    assert resolved == Resolved("0.14.0", "installed beside memlint")


def test_broken_files_tell_what_they_can(project: Path) -> None:
    (project / "pyproject.toml").write_bytes(b'[project\n\xff dependencies = ["trl==0.9.6"\n')
    (project / "uv.lock").write_text("")
    assert _version(project).assumed
    (project / "pyproject.toml").write_bytes(b'[project]\n\xff dependencies = ["trl==0.9.6"\n')
    assert _version(project).version == "0.9.6"


def test_the_tools_own_configuration_is_no_requirement(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.memlint]\ntarget = "trl==0.9.6"\n')
    assert _version(project).assumed


def test_a_folder_is_resolved_once(project: Path) -> None:
    resolver = _resolver()
    first = resolver.resolve(project)
    (project / "requirements.txt").write_text("trl==0.9.6\n")
    assert resolver.resolve(project) is first


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": '[project]\nname = "trl"\nversion = "0.13.0.dev0"\n'},
        {
            "pyproject.toml": '[project]\nname = "trl"\ndynamic = ["version"]\n'
            '[tool.x]\nversion = "9"\n',
            "VERSION": "0.13.0.dev0\n",
        },
        {"setup.py": 'setup(\n    name="trl",\n    version="0.13.0.dev0",\n)\n'},
        {"setup.py": 'VERSION = "0.13.0.dev0"\nsetup(name="trl", version=VERSION)\n'},
        {"pyproject.toml": "[tool.ruff]\n", "setup.py": 'setup(name="trl", version="0.13.0.dev0")'},
    ],
)
def test_scripts_of_a_librarys_own_source_tree_are_for_that_version(
    project: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (project / name).write_text(text)
    (project / "requirements.txt").write_text("trl==0.9.6\ntransformers==4.57.6\n")
    resolved = _version(project / "scripts")
    assert resolved.version == "0.13.0.dev0"
    assert resolved.note == "this is trl itself"
    assert not resolved.assumed
    assert _version(project / "scripts", "transformers").version == "4.57.6"


def test_a_project_that_merely_asks_for_a_library_is_not_it(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[project]\nname = "trl-tools"\nversion = "3.0"\ndependencies = ["trl==0.9.6"]\n'
        '[tool.uv.sources.trl]\nname = "trl"\n'
    )
    assert _version(project / "scripts").version == "0.9.6"
    (project / "pyproject.toml").write_text('[project]\nname = "trl"\ndynamic = ["version"]\n')
    (project / "VERSION").write_text("unknown\n")
    assert _version(project / "scripts").assumed


@pytest.mark.parametrize(
    "text",
    [
        "-r /dev/zero\ntrl==0.9.6\n",
        "-r pipe\ntrl==0.9.6\n",
        "-r .\n-r missing\n-r \0\ntrl==0.9.6\n",
        "-r requirements.txt\n" * 300 + "trl==0.9.6\n",
        "".join(f"-r r{number}.txt\n" for number in range(300)) + "trl==0.9.6\n",
        "trl @" + "@" * 200_000 + "\ntrl==0.9.6\n",
        "trl" + " " * 200_000 + "x\ntrl==0.9.6\n",
    ],
)
def test_hostile_requirements_neither_hang_nor_hide_the_pins(project: Path, text: str) -> None:
    os.mkfifo(project / "pipe")
    for number in range(300):
        (project / f"r{number}.txt").write_text("".join(f"-r r{n}.txt\n" for n in range(300)))
    (project / "requirements.txt").write_text(text)
    assert _version(project).version == "0.9.6"


def test_a_requirements_file_that_is_a_pipe_is_passed_over(project: Path) -> None:
    os.mkfifo(project / "requirements.txt")
    assert _version(project).assumed


@pytest.mark.parametrize(
    "text",
    ['name = "trl"\n' * 60_000, '[[package]]\nname = "trl"\nversion = "x\x1b[0m"\n' * 2],
)
def test_a_lock_file_of_nonsense_says_nothing(project: Path, text: str) -> None:
    (project / "uv.lock").write_text(text)
    assert _version(project).assumed


@pytest.mark.parametrize(
    "version", ["5.20.0+\x1b]0;PWN\x07", "5.20.0+\n::error::x", "5.20.0 x", "5"]
)
def test_only_versions_are_taken_for_versions(project: Path, version: str) -> None:
    _environment(project / ".venv", transformers=version, trl="0.15.1")
    (project / "requirements.txt").write_text(f"torch=={version}\n")
    target = _resolver().resolve(project)
    shown = str(target)
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert target.version("transformers").assumed == (version != "5")


def test_an_environment_of_other_things_is_no_evidence(project: Path) -> None:
    _environment(project / ".venv", peft="0.10.0", accelerate="0.30.0")
    assert _version(project, "peft").assumed


@pytest.mark.parametrize(
    "hook", ["cache/pre-commit/repo1/py_env-python3.11", "prek/hooks/python-x"]
)
def test_the_environment_of_a_hook_is_not_the_users(tmp_path: Path, hook: str) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    own = _environment(tmp_path / hook, trl="1.16.0", transformers="5.23.0")
    user = _environment(tmp_path / "user", trl="0.12.2", transformers="4.46.3")
    for environment in (own, user):
        (environment / "bin").mkdir()
        (environment / "bin" / "python").touch()
    path = os.pathsep.join([f"{own}/bin", "/nowhere/bin", f"{user}/bin"])
    resolved = _version(project, VIRTUAL_ENV=str(own), PATH=path)
    assert resolved == Resolved("0.12.2", str(user))
    conda = _environment(tmp_path / "conda", trl="0.15.1")
    resolved = _version(project, VIRTUAL_ENV=str(own), PATH=path, CONDA_PREFIX=str(conda))
    assert resolved == Resolved("0.15.1", str(conda))
    alone = _version(project, VIRTUAL_ENV=str(own), PATH=f"{own}/bin")
    assert alone.assumed
    assert alone.note == "no environment but the hook's has it"


def test_a_hook_without_an_environment_of_its_own_sees_the_users(project: Path) -> None:
    user = _environment(project.parent / "user", trl="0.12.2")
    assert _version(project, VIRTUAL_ENV=str(user), PRE_COMMIT="1").version == "0.12.2"


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\nset -e\nuv pip install --system trl==0.12.2\n",
        "if true; then\n  python -m pip install 'trl==0.12.2' \\\n    peft\nfi\n",
        "conda install -y trl=0.12.2 && echo pip install trl\n",
        "uv add trl==0.12.2\n",
    ],
)
def test_shell_scripts_tell_what_they_install(project: Path, text: str) -> None:
    (project / "setup.sh").write_text(text)
    assert str(_version(project / "scripts").version) == "0.12.2"
    (project / "requirements.txt").write_text("trl==0.9.6\n")
    assert str(_version(project / "scripts").version) == "0.9.6"


def test_shell_scripts_that_install_other_versions_tell_nothing(project: Path) -> None:
    for number, version in enumerate(("0.12.2", "0.13.0", "0.12.2")):
        (project / f"{number}.sh").write_text(f"pip install trl=={version} peft==0.12.0\n")
    assert _version(project).assumed
    assert str(_version(project, "peft").version) == "0.12.0"


@pytest.mark.parametrize(
    "text", ["# pip install trl==0.12.2\n", "pip install trl\n", "trl==0.12\n"]
)
def test_a_shell_script_that_pins_nothing_tells_nothing(project: Path, text: str) -> None:
    (project / "setup.sh").write_text(text)
    assert _version(project).assumed
