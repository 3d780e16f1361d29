"""What happens to a user's function before Numba infers its types.

Two things that Python says without words have to be said to Numba. Assigning to a field of `state` must
look at the value's own type, where Numba would convert it whatever it takes. And a null that is only
handed on, from a column or a field to `out.emit` or into state, must stay null, although it reads as zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from numba import njit, types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import InlineClosureLikes

from .null_passing import field_or_null, item_or_null
from .record_views import set_field
from .refusals import refuse
from .text import TextType

READS = ("getattr", "getitem")


@register_pass(mutates_CFG=False, analysis_only=False)
class SpellOut(FunctionPass):
    """Turn ``state.n = x`` into ``set_field(state, "n", x)``, and note whether what is handed on is null."""

    _name = "millrace_spell_out"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state) -> bool:
        func_ir = state.func_ir
        for block in func_ir.blocks.values():
            block.body = [s for statement in block.body for s in _without_assignment(statement, block.scope, func_ir)]
        reads = {id(source) for call in _calls(func_ir) for arg in call.args if (source := _source(func_ir, arg))}
        marked: dict[int, ir.Var] = {}
        for block in func_ir.blocks.values():
            bodies = (_with_null(statement, block.scope, func_ir, reads, marked) for statement in block.body)
            block.body = [statement for body in bodies for statement in body]
        for call in _calls(func_ir):
            # Numba concatenates arguments, so they stay the list or the tuple that they were.
            call.args = type(call.args)(marked.get(id(_source(func_ir, arg)), arg) for arg in call.args)
        return True


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseTextKeys(AnalysisPass):
    """Refuse dicts with text for keys: Numba compares keys without references by their bytes, here addresses."""

    _name = "millrace_refuse_text_keys"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state) -> bool:
        for known in state.typemap.values():
            if isinstance(known, types.DictType) and _holds_text(known.key_type):
                raise refuse("a dict cannot have text for keys; make strings of them with str(…)")
        return False


def _holds_text(key_type: types.Type) -> bool:
    parts = key_type.types if isinstance(key_type, types.BaseTuple) else (key_type,)
    return any(isinstance(part, TextType) or (part is not key_type and _holds_text(part)) for part in parts)


class StatefulCompiler(CompilerBase):
    """Numba's compiler with these passes in it."""

    def define_pipelines(self):
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        # Only then do functions within the function stand among its own statements.
        pipeline.add_pass_after(SpellOut, InlineClosureLikes)
        pipeline.add_pass_after(RefuseTextKeys, NopythonTypeInference)
        pipeline.finalize()
        return [pipeline]


def compiled(**options):
    """Decorate a captured function in its module."""
    return njit(nogil=True, pipeline_class=StatefulCompiler, **options)


def _without_assignment(statement: ir.Stmt, scope: ir.Scope, func_ir: ir.FunctionIR) -> list[ir.Stmt]:
    if not isinstance(statement, ir.SetAttr):
        return [statement]
    return _call(set_field, (statement.target, statement.attr, statement.value), statement.loc, scope, func_ir)


def _with_null(
    statement: ir.Stmt, scope: ir.Scope, func_ir: ir.FunctionIR, reads: set[int], marked: dict[int, ir.Var]
) -> list[ir.Stmt]:
    """Behind a read whose value is handed on, add the same value or none, and note its variable."""
    if not isinstance(statement, ir.Assign) or id(statement.value) not in reads:
        return [statement]
    read = statement.value
    if read.op == "getattr":
        added = _call(field_or_null, (read.value, read.attr, statement.target), statement.loc, scope, func_ir)
    else:
        added = _call(item_or_null, (read.value, read.index, statement.target), statement.loc, scope, func_ir)
    marked[id(read)] = added[-1].target
    return [statement, *added]


def _calls(func_ir: ir.FunctionIR) -> Iterator[ir.Expr]:
    """Give the calls through which values are handed on."""
    for block in func_ir.blocks.values():
        for call in block.find_exprs("call"):
            function = _definition(func_ir, call.func)
            is_assignment = isinstance(function, ir.Global) and function.value is set_field
            is_read = isinstance(function, ir.Expr) and function.op == "getattr"
            if is_assignment or (is_read and function.attr == "emit"):
                yield call


def _source(func_ir: ir.FunctionIR, variable: ir.Var) -> ir.Expr | None:
    """Give the read that a variable's value comes from, if it is one and no other."""
    value = _definition(func_ir, variable)
    return value if isinstance(value, ir.Expr) and value.op in READS else None


def _definition(func_ir: ir.FunctionIR, variable: ir.Var):
    try:
        return func_ir.get_definition(variable)
    except KeyError:  # it is assigned in several places
        return None


def _call(function, arguments: tuple, loc: ir.Loc, scope: ir.Scope, func_ir: ir.FunctionIR) -> list[ir.Assign]:
    """Give the statements that call a function; arguments are variables, or names as text."""
    made: list[ir.Assign] = []

    def assign(value) -> ir.Var:
        variable = scope.redefine("$millrace", loc)
        made.append(ir.Assign(value, variable, loc))
        func_ir._definitions[variable.name].append(value)
        return variable

    called = assign(ir.Global(function.__name__, function, loc))
    given = tuple(assign(ir.Const(a, loc)) if isinstance(a, str) else a for a in arguments)
    assign(ir.Expr.call(called, given, (), loc))
    return made
