"""verl's columns to Relax's: prompt, label, metadata, tools, media; every other column stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from migrate_tools.data.media import check_placeholders, media_lists
from migrate_tools.data.plan import BadRow, ConvertError, ConvertPlan, Remarks, free_name, is_list, is_text
from migrate_tools.data.shape import Shape, arrow_values
from migrate_tools.data.sources import Chunk, Part

NEEDED = ("prompt", "label", "extra_info")
BESIDE = ("ability", "style", "tools_kwargs", "interaction_kwargs", "agent_name")
"""Columns, and the key `style` of reward_model, that join the metadata where the file has them."""
CHAT_MARKERS = ("<|im_start|>", "<|start_header_id|>", "[INST]", "<start_of_turn>", "<|user|>", "<|assistant|>")


@dataclass
class Layout:
    """One source and how its columns are read."""

    part: Part
    plan: ConvertPlan
    decoded: dict[str, Shape] = field(default_factory=dict)
    """Column with JSON text or maps -> shape of its values."""
    remarks: Remarks = field(default_factory=Remarks)
    losses: list[str] = field(default_factory=list)
    """Values that one Arrow type per column cannot hold as they are."""
    media: tuple[tuple[str, str], ...] = ()
    schema: Any = None
    """Of the converted rows."""


def read_layout(plan: ConvertPlan, part: Part) -> Layout:
    """A first look at a source; columns with JSON text are read through for their types.

    Raises:
        ConvertError: it is no verl data, or cannot become what Relax loads.
    """
    names, at = part.schema.names, part.path
    if "reward_model" not in names and ("label" in names or plan.prompt_key not in names):
        advice = "it is converted already" if "label" in names else "run the recipe's data preparation script first"
        raise ConvertError(f"{at}: no column reward_model (it has {', '.join(names)}); {advice}")
    if plan.prompt_key not in names:
        raise ConvertError(f"{at}: no column {plan.prompt_key!r} for the prompt (it has {', '.join(names)})")
    layout = Layout(part, plan, losses=list(part.losses))
    layout.media = tuple((name, kind) for name, kind in plan.media if name in names or plan.media_always)
    _decode(layout)
    layout.schema = empty(layout).schema
    return layout


def empty(layout: Layout) -> Any:
    """The converted form of no rows: it has the schema of all."""
    arrays = [pa.array([], type=item.type) for item in layout.part.schema]
    batch = pa.RecordBatch.from_arrays(arrays, schema=layout.part.schema.remove_metadata())
    return transform(layout, Chunk(0, 0, batch), Remarks())[0]


def transform(layout: Layout, chunk: Chunk, remarks: Remarks | None = None) -> tuple[Any, list[BadRow]]:
    """Converted rows, and those that are bad (whose values are not to be used)."""
    plan, batch = layout.plan, chunk.batch
    remarks = layout.remarks if remarks is None else remarks
    columns = {name: _plain(batch.column(index)) for index, name in enumerate(batch.schema.names)}
    bad: list[BadRow] = []
    reward = _struct(layout, columns.get("reward_model"), "reward_model", bad)
    prompt = _prompt(layout, columns[plan.prompt_key], bad)
    new = {
        "prompt": prompt,
        "label": _label(layout, reward, batch.num_rows),
        "extra_info": _metadata(layout, columns, reward, prompt, bad),
    }
    for name, kind in layout.media:
        column = columns.get(name)
        if column is not None and name in layout.decoded:
            column = _struct(layout, column, name, bad)
        items = pa.nulls(batch.num_rows) if column is None else column
        new[name], wrong = media_lists(items, layout.part.path.parent, name, remarks)
        bad += wrong
        bad += check_placeholders(new["prompt"], new[name], name, kind, remarks)
    if plan.tools:
        new["tools"] = shown_tools(plan, new["extra_info"])
    moved = {"extra_info", *(name for name, _ in layout.media)} | (set() if plan.raw_prompt else {plan.prompt_key})
    for name, column in columns.items():
        if name in moved:
            continue
        kept = _tools(column, bad, remarks) if name == "tools" else column
        taken = name in new or (name == "tools" and not (is_list(kept.type) or is_text(kept.type)))
        new[free_name(f"verl_{name}", columns) if taken else name] = kept
    return pa.RecordBatch.from_arrays(list(new.values()), names=list(new)), sorted(bad, key=lambda item: item.offset)


def shown_tools(plan: ConvertPlan, metadata: Any) -> Any:
    """The schemas that each row shows, as JSON text: those that it chooses, in its order."""
    names: list[Any] = [None] * len(metadata)
    place = metadata.type.get_field_index(plan.tools_by) if plan.tools_by else -1
    if place >= 0:
        names = pc.struct_field(metadata, [place]).to_pylist()
    known = {item["function"]["name"]: item for item in json.loads(plan.tools)}
    texts = []
    for chosen in names:
        if plan.tools_by == "tools_kwargs":
            given = chosen if isinstance(chosen, dict) else {}  # verl stops at any other
            chosen = [name for name, value in given.items() if value is not None]
        elif not isinstance(chosen, list) or not chosen:
            texts.append(plan.tools)
            continue
        texts.append(json.dumps([known[name] for name in chosen if str(name) in known], ensure_ascii=False))
    return pa.array(texts, pa.string())


def python_rows(layout: Layout, chunk: Chunk, batch: Any) -> list[dict[str, Any]]:
    """Converted rows as Python values that keep what Arrow types cannot: absent keys, and types that differ by row."""
    rows: list[dict[str, Any]] = batch.to_pylist()
    source = {name: chunk.batch.column(name).to_pylist() for name in layout.decoded}
    for offset, row in enumerate(rows):
        raw: dict[str, Any] = dict(chunk.rows[offset]) if chunk.rows else {}
        for name in layout.decoded:
            raw[name] = _value(source[name][offset], _needed(layout, name))[0]
        media = {name for name, _ in layout.media}
        row.update({name: value for name, value in raw.items() if name in row and name not in (*NEEDED, *media)})
        row.update({name: chunk.rows[offset].get(name) for name in ("reward_model",) if chunk.rows and name in row})
        if layout.plan.prompt_key in raw and not layout.plan.raw_prompt:
            row["prompt"] = raw[layout.plan.prompt_key]
        if isinstance(raw.get("reward_model"), dict):
            row["label"] = raw["reward_model"].get("ground_truth")
        if isinstance(raw.get("extra_info"), dict):
            former = layout.decoded.get("extra_info") or layout.part.schema.field("extra_info").type
            own = set(former.fields) if isinstance(former, Shape) else {item.name for item in former}
            row["extra_info"] = raw["extra_info"] | {k: v for k, v in row["extra_info"].items() if k not in own}
    return rows


# ---------------------------------------------------------------- decoding


def _decode(layout: Layout) -> None:
    """Find the columns that hold JSON text or maps where a structure is needed."""
    schema, plan = layout.part.schema, layout.plan
    lists = {plan.prompt_key, *(name for name, _ in layout.media)}
    wanted = [name for name in ("reward_model", "extra_info", *sorted(lists)) if name in schema.names]
    for name in wanted:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_map(kind) or (is_text(kind) and (name not in lists or _all_json_lists(layout, name))):
            shape = layout.decoded[name] = _shape(layout, name)
            layout.losses += () if shape.bare else shape.losses(name, absent=True)
    truth = _type_of(layout, "reward_model")
    if truth is None:
        layout.remarks.say("no column reward_model: the label is empty in every row")
    elif not pa.types.is_null(truth) and (not pa.types.is_struct(truth) or truth.get_field_index("ground_truth") < 0):
        raise ConvertError(
            f"{layout.part.path}: reward_model is {truth}, without a field ground_truth; prepare the data again"
        )
    extra = _type_of(layout, "extra_info")
    if extra is not None and not (pa.types.is_struct(extra) or pa.types.is_null(extra)):
        raise ConvertError(f"{layout.part.path}: extra_info is {extra}, not a struct; Relax needs a dictionary per row")
    prompt = _type_of(layout, plan.prompt_key)
    if not (is_text(prompt) or pa.types.is_null(prompt) or _is_chat(prompt)):
        raise ConvertError(
            f"{layout.part.path}: column {plan.prompt_key} is {prompt}, neither text nor a list of messages; "
            "name the right one with --prompt-key"
        )


def _type_of(layout: Layout, name: str) -> Any:
    if name in layout.decoded:
        return pa.null() if layout.decoded[name].bare else layout.decoded[name].type()
    if name not in layout.part.schema.names:
        return None
    kind = layout.part.schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_chat(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("content") >= 0)
    return bool((is_list(kind) or pa.types.is_fixed_size_list(kind)) and pa.types.is_struct(kind.value_type))


def _all_json_lists(layout: Layout, name: str) -> bool:
    """Whether every text of the first rows is a JSON list."""
    for chunk in layout.part.read([name]):
        texts = [text for text in chunk.batch.column(0).to_pylist() if text]
        if texts:
            return all(_is_json_list(text, name == layout.plan.prompt_key) for text in texts[:64])
    return False


def _is_json_list(text: str, chat: bool) -> bool:
    if not text.lstrip().startswith("["):
        return False
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, list) and (not chat or all(isinstance(item, dict) and "content" in item for item in found))


def _shape(layout: Layout, name: str) -> Shape:
    shape, needed = Shape(), _needed(layout, name)
    for chunk in layout.part.read([name]):
        for item in chunk.batch.column(0).to_pylist():
            value, wrong = _value(item, needed)
            if not wrong:
                shape.add(value)
    return shape


def _needed(layout: Layout, name: str) -> type:
    return dict if name in ("reward_model", "extra_info") else list


def _value(item: Any, needed: type) -> tuple[Any, str]:
    """The value in a JSON text or map; and what is wrong with it."""
    if item is None:
        return None, ""
    if isinstance(item, list):
        return dict(item), ""
    try:
        value = json.loads(item)
    except ValueError as error:
        return None, f"not JSON ({error})"
    if value is not None and not isinstance(value, needed):
        return None, f"a JSON {type(value).__name__} where {'an object' if needed is dict else 'a list'} is needed"
    return value, ""


def _struct(layout: Layout, column: Any, name: str, bad: list[BadRow]) -> Any:
    """The column with JSON text and maps decoded."""
    shape = layout.decoded.get(name)
    if shape is None or column is None:
        return column
    values = []
    for offset, item in enumerate(column.to_pylist()):
        value, wrong = _value(item, _needed(layout, name))
        if wrong:
            bad.append(BadRow(offset, name, wrong))
        values.append(value)
    return pa.nulls(len(values)) if shape.bare else arrow_values(shape, values)


# ---------------------------------------------------------------- the columns that Relax reads


def _prompt(layout: Layout, column: Any, bad: list[BadRow]) -> Any:
    name = layout.plan.prompt_key
    prompts = _struct(layout, column, name, bad)
    kind = prompts.type
    if pa.types.is_fixed_size_list(kind):
        prompts = prompts.cast(pa.list_(kind.value_type))
    elif pa.types.is_struct(kind):
        ends = pa.array(range(len(prompts) + 1), pa.int32())
        prompts = pa.ListArray.from_arrays(ends, prompts)
        layout.remarks.say(f"column {name} holds one message a row: it became a list of one")
    raw = layout.plan.raw_prompt and is_list(prompts.type)
    empty_rows = prompts.is_null() if is_text(prompts.type) or pa.types.is_null(kind) else _no_items(prompts)
    if pc.any(empty_rows).as_py():
        reason = "no first message; verl would stop here too" if raw else "no prompt"
        bad += [BadRow(row, name, reason) for row in pc.indices_nonzero(empty_rows).to_pylist()]
    if is_text(prompts.type):
        _markers(layout, prompts)
    elif raw:
        return _first_texts(prompts, name, bad)
    return prompts


def _no_items(lists: Any) -> Any:
    return pc.equal(pc.fill_null(pc.list_value_length(lists), 0), 0)


def _markers(layout: Layout, prompts: Any) -> None:
    for mark in CHAT_MARKERS:
        rows = pc.sum(pc.match_substring(prompts, mark)).as_py() or 0
        layout.remarks.count(f"the prompt is text with {mark} in it: leave --apply-chat-template away", rows)


def _first_texts(prompts: Any, name: str, bad: list[BadRow]) -> Any:
    texts: list[str | None] = []
    for offset, messages in enumerate(prompts.to_pylist()):
        text = messages[0].get("content") if messages else None
        if messages and not isinstance(text, str):
            bad.append(BadRow(offset, name, "no first message with text; verl would stop here too"))
        texts.append(text if isinstance(text, str) else None)
    return pa.array(texts, type=pa.string())


def _label(layout: Layout, reward: Any, rows: int) -> Any:
    if reward is None or pa.types.is_null(reward.type):
        return pa.nulls(rows, pa.string())
    label = _plain(pc.struct_field(reward, [reward.type.get_field_index("ground_truth")]))
    if not layout.plan.flat_label or is_text(label.type):
        return label
    shape = layout.decoded.get("reward_model")
    if shape is not None and shape.fields["ground_truth"].as_text:
        return label
    layout.remarks.say(f"labels of type {label.type} became JSON text")
    texts = [None if item is None else json.dumps(item, ensure_ascii=False, default=str) for item in label.to_pylist()]
    return pa.array(texts, type=pa.string())


def _metadata(layout: Layout, columns: dict[str, Any], reward: Any, prompt: Any, bad: list[BadRow]) -> Any:
    """The former extra_info with what stands beside it; a missing value becomes one with empty fields."""
    fields: dict[str, Any] = {}
    rows = len(prompt)
    former = _struct(layout, columns.get("extra_info"), "extra_info", bad)
    if former is not None and not pa.types.is_null(former.type):
        fields = {item.name: pc.struct_field(former, [index]) for index, item in enumerate(former.type)}
    own = frozenset(fields)
    beside = {"data_source": columns.get(layout.plan.reward_fn_key)}
    beside |= {name: columns.get(name) for name in BESIDE}
    if reward is not None and pa.types.is_struct(reward.type) and reward.type.get_field_index("style") >= 0:
        beside["style"] = pc.struct_field(reward, [reward.type.get_field_index("style")])
    if layout.plan.prompt_in_metadata:
        beside["raw_prompt"] = prompt
    beside |= {name: columns.get(name) for name in layout.plan.row_columns}
    for name, value in beside.items():
        if value is None and not (name == "data_source" or (name == "ability" and name in own)):
            continue
        fields[free_name(name, own)] = pa.nulls(rows, pa.string()) if value is None else _plain(value)
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _tools(column: Any, bad: list[BadRow], remarks: Remarks) -> Any:
    """A list in every row, else Relax stops; other types are left for another name."""
    if is_list(column.type):
        if not column.null_count:
            return column
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        remarks.count("column tools: no value became an empty list", column.null_count)
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
        return pa.LargeListArray.from_arrays(offsets, column.flatten()).cast(column.type)
    if is_text(column.type):
        remarks.count("column tools: no value became an empty list", column.null_count)
        texts = pc.fill_null(column, "[]")
        wrong = pc.invert(pc.starts_with(pc.utf8_ltrim_whitespace(texts), "["))
        bad += [BadRow(row, "tools", "text that is no JSON list") for row in pc.indices_nonzero(wrong).to_pylist()]
        return texts
    remarks.say(f"column tools is kept as verl_tools: Relax needs a list in every row and it holds {column.type}")
    return column


def _plain(column: Any) -> Any:
    """Views and dictionaries as plain values."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.dictionary_decode()
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.binary())
    return column


def first_bad(layout: Layout, chunk: Chunk, bad: Sequence[BadRow]) -> str:
    """Where a row is bad and why, in one line."""
    item = bad[0]
    return f"{layout.part.at(chunk.group, chunk.number(item.offset))}, column {item.column}: {item.reason}"
