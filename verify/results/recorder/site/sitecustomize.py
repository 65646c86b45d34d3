"""Has unittest and pytest note the single results of tests in a file; what they print stays as it is."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def _next():
    """Runs the sitecustomize that ours stands before."""
    import importlib.machinery
    import importlib.util
    path = [p for p in sys.path if os.path.abspath(p) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _Notes:
    """The file of this process's results. It is made when a runner starts."""

    def __init__(self):
        import json
        self.fd, self.open, self.write, self.dumps = None, os.open, os.write, json.dumps
        self.to = os.path.join(HERE, "..", "results", "py.%d.ndjson" % os.getpid())

    def start(self):
        if self.fd is None:
            self.fd = self.open(self.to, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, name, state):
        self.start()
        self.write(self.fd, (self.dumps([name, state]) + "\n").encode())


def _leave():
    """What a test starts notes nothing: it is a part of the test."""
    for name, ours in (("PYTHONPATH", HERE), ("PATH", os.path.join(os.path.dirname(HERE), "bin"))):
        rest = [p for p in os.environ.get(name, "").split(os.pathsep) if p and os.path.abspath(p) != ours]
        if rest:
            os.environ[name] = os.pathsep.join(rest)
        else:
            os.environ.pop(name, None)


class _Only:
    """The changed files of tests, where they are to run alone."""

    def __init__(self):
        try:
            with open(os.path.join(HERE, "..", "only")) as f:
                self.files = f.read().splitlines()
        except OSError:
            self.files = []

    def has(self, path):
        path = os.path.abspath(path or "").replace(os.sep, "/")
        return any(path.endswith("/" + f) for f in self.files)

    def narrowed(self):
        with open(os.path.join(HERE, "..", "results", "narrowed"), "w"):
            pass


def _unittest_main(module):
    real, init = module.TestProgram.runTests, module.TestProgram.__init__

    def start(self, *args, **kw):
        _Notes().start()
        init(self, *args, **kw)
    module.TestProgram.__init__ = start

    def loaded(suite):
        for t in suite:
            if hasattr(t, "_tests"):
                yield from loaded(t)
            else:
                yield t

    def prune(suite, keep):
        for t in suite:
            if hasattr(t, "_tests"):
                prune(t, keep)
        suite._tests = [t for t in suite if hasattr(t, "_tests") or keep(t)]

    def run(self):
        only = _Only()

        def chosen(t):
            return only.has(getattr(sys.modules.get(type(t).__module__), "__file__", ""))
        if hasattr(self.test, "_tests") and any(chosen(t) for t in loaded(self.test)):
            prune(self.test, lambda t: chosen(t) or type(t).__module__.startswith("unittest."))
            only.narrowed()
        return real(self)
    module.TestProgram.runTests = run


def _unittest(module):
    note, result = _Notes(), module.TestResult

    def after(method, state):
        real = getattr(result, method)

        def noted(self, test, *args, **kw):
            name, what = test.id(), state
            if name.startswith("unittest.loader._FailedTest."):
                name, what = name[len("unittest.loader._FailedTest."):], "load"
            elif type(test).__name__ == "_ErrorHolder" and what == "fail":
                what = "load"
            note(name, what)
            return real(self, test, *args, **kw)
        setattr(result, method, noted)

    for method, state in (("addSuccess", "pass"), ("addFailure", "fail"), ("addError", "fail"), ("addSkip", "skip"),
                          ("addExpectedFailure", "skip"), ("addUnexpectedSuccess", "fail")):
        after(method, state)
    sub, start = result.addSubTest, result.startTestRun

    def sub_test(self, test, subtest, err):
        if err is not None:
            note(test.id(), "fail")
        return sub(self, test, subtest, err)

    def start_run(self):
        _leave()
        return start(self)
    result.addSubTest, result.startTestRun = sub_test, start_run


class _Pytest:
    """The plugin of pytest."""

    def __init__(self):
        self.note = _Notes()
        self.note.start()

    def pytest_configure(self, config):
        _leave()

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            state = {"passed": "pass", "failed": "fail"}.get(report.outcome, "skip")
            self.note(report.nodeid, "skip" if hasattr(report, "wasxfail") else state)

    def pytest_collection_modifyitems(self, items):
        only = _Only()
        kept = [i for i in items if only.has(str(i.fspath))]
        if kept:
            items[:] = kept
            only.narrowed()

    def pytest_collectreport(self, report):
        if report.failed:
            self.note(report.nodeid, "load")


def _pytest(module):
    real = module._prepareconfig

    def prepare(args=None, plugins=None):
        args = sys.argv[1:] if args is None else args
        if os.path.exists(os.path.join(HERE, "..", "go-on")):
            args = [*args, "--continue-on-collection-errors"] if not isinstance(args, (str, os.PathLike)) else args
        return real(args, [*(plugins or []), _Pytest()])
    module._prepareconfig = prepare


class _Finder:
    """Has a module that it knows be changed as it is loaded."""
    changes = {"unittest.result": _unittest, "unittest.main": _unittest_main, "_pytest.config": _pytest}

    def find_spec(self, name, path=None, target=None):
        change = self.changes.get(name)
        if change is None:
            return None
        import importlib.machinery
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_change(module):
            load(module)
            try:
                change(module)
            except Exception:  # of a version that is made otherwise: its results are unknown
                pass
        spec.loader.exec_module = load_and_change
        return spec


try:
    _next()
finally:
    sys.meta_path.insert(0, _Finder())
