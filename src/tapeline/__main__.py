"""`python -m tapeline`: what the stages in `dvc.yaml` call."""

from tapeline.runtime.interpreter import use_project_interpreter

if __name__ == "__main__":
    use_project_interpreter()
    from tapeline.cli.main import run

    run()
