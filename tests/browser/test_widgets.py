"""Widgets as npm has them, each used from start to end by the agent's own acts: marks, writing, keys, scrolling.

They are bundled once into `~/.cache/bestofq-widgets`. Without npm or its registry the tests are skipped.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bestofq.browser.session import BrowserSession
from tests.browser.acting import Step, follow

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

CACHE = Path.home() / ".cache" / "bestofq-widgets"
PACKAGES = {
    "@emotion/react": "11", "@emotion/styled": "11", "@mui/material": "7", "@mui/x-date-pickers": "8",
    "ag-grid-community": "34", "codemirror": "6", "dayjs": "1", "esbuild": "0.25", "jquery": "3", "jquery-ui": "1.14",
    "quill": "2", "react": "19", "react-dom": "19", "react-select": "5", "react-window": "2",
}  # fmt: skip
REACT = """import React, { useState } from 'react'; import { createRoot } from 'react-dom/client';
const did = (what) => document.title = what; const show = (e) => createRoot(document.querySelector('#root')).render(e);
"""
JQUERY = """import jquery from 'jquery'; window.jQuery = window.$ = jquery; const did = (what) => document.title = what;
const html = (text) => $('#root').html(text); require('jquery-ui/dist/jquery-ui.js');
require('jquery-ui/dist/themes/base/jquery-ui.css');
"""
WIDGETS: dict[str, tuple[str, list[Step]]] = {
    "react-select": (
        REACT + """import Select from 'react-select';
        const options = ['Berlin', 'Bern', 'Paris'].map((value) => ({ value, label: value }));
        show(<Select inputId="c" aria-label="City" options={options} onChange={(v) => did(v.label)} />);""",
        [("click", "City"), ("sees", r"Berlin \[\d+\]\nBern \[\d+\]\nParis"), ("write", "City", "Be"),
         ("sees", r"Berlin \[\d+\]\nBern(?!.*Paris)"), ("click", "Bern"), ("sees", "^Bern")],
    ),
    "react-select, several": (
        REACT + """import Select from 'react-select';
        const options = ['Red', 'Green', 'Blue'].map((value) => ({ value, label: value }));
        show(<Select isMulti aria-label="Colours" options={options}
          onChange={(v) => did(v.map((one) => one.label).join(' '))} />);""",
        [("click", "Colours"), ("click", "Red"), ("write", "Colours", "Bl"), ("click", "Blue"), ("sees", "^Red Blue"),
         ("click", "Remove Red"), ("sees", "^Blue")],
    ),
    "react-select, loaded": (
        REACT + """import Select from 'react-select/async';
        const load = (text) => new Promise((done) => setTimeout(() => done(
          ['Berlin', 'Bern'].filter((one) => one.startsWith(text)).map((value) => ({ value, label: value }))), 600));
        show(<Select aria-label="City" loadOptions={load} onChange={(v) => did(v.label)} />);""",
        [("write", "City", "Ber"), ("click", "Bern"), ("sees", "^Bern")],
    ),
    "MUI slider": (
        REACT + """import { Slider } from '@mui/material';
        show(<div style={{ padding: 40, width: 300 }}><Slider aria-label="Volume" defaultValue={30}
          onChangeCommitted={(e, v) => did('volume ' + v)} /></div>);""",
        [("write", "Volume", "70"), ("sees", "^volume 70"), ("press", "Volume", "ArrowRight ArrowRight"),
         ("sees", "^volume 72")],
    ),
    "MUI rating": (
        REACT + """import { Rating } from '@mui/material';
        show(<Rating onChange={(e, v) => did('rated ' + v)} />);""",
        [("sees", "1 Star"), ("click", "4 Stars"), ("sees", "^rated 4")],
    ),
    "MUI autocomplete": (
        REACT + """import { Autocomplete, TextField } from '@mui/material';
        show(<Autocomplete options={['Berlin', 'Bern', 'Paris']} onChange={(e, v) => did(String(v))}
          renderInput={(p) => <TextField {...p} label="City" />} />);""",
        [("write", "City", "Ber"), ("click", "Bern"), ("sees", "^Bern"), ("click", "Clear"), ("sees", "^null"),
         ("write", "City", "Par"), ("press", "", "ArrowDown Enter"), ("sees", "^Paris")],
    ),
    "MUI select, menu and dialog": (
        REACT + """import { Button, Dialog, FormControl, InputLabel, Menu, MenuItem, Select } from '@mui/material';
        function Page() { const [at, set] = useState(null), [open, ask] = useState(false), [age, grow] = useState('');
          return <><FormControl sx={{ minWidth: 200 }}><InputLabel id="l">Age</InputLabel><Select labelId="l"
            label="Age" value={age} onChange={(e) => { grow(e.target.value); did('age ' + e.target.value) }}>
            <MenuItem value={10}>Ten</MenuItem><MenuItem value={20}>Twenty</MenuItem></Select></FormControl>
          <Button onClick={(e) => set(e.currentTarget)}>Actions</Button>
          <Menu anchorEl={at} open={!!at} onClose={() => set(null)}><MenuItem onClick={() => { set(null); ask(true) }}>
            Rename</MenuItem></Menu>
          <Dialog open={open}><Button onClick={() => { ask(false); did('agreed') }}>Agree</Button></Dialog></> }
        show(<Page />);""",
        [("click", "Age"), ("click", "Twenty"), ("sees", "^age 20"), ("click", "Actions"), ("click", "Rename"),
         ("click", "Agree"), ("sees", "^agreed"), ("click", "Actions"), ("press", "", "Escape"),
         ("sees", "(?!.*Rename)")],
    ),
    "MUI date picker": (
        REACT + """import { DatePicker } from '@mui/x-date-pickers/DatePicker'; import dayjs from 'dayjs';
        import { AdapterDayjs } from '@mui/x-date-pickers/AdapterDayjs';
        import { LocalizationProvider } from '@mui/x-date-pickers/LocalizationProvider';
        show(<LocalizationProvider dateAdapter={AdapterDayjs}><DatePicker label="Day"
          defaultValue={dayjs('2026-11-05')} onChange={(v) => did(v?.format('YYYY-MM-DD'))} />
          </LocalizationProvider>);""",
        [("click", "Choose date"), ("click", "Next month"), ("click", "24"), ("sees", "^2026-12-24")],
    ),
    "jQuery UI menu": (
        JQUERY + """html('<ul id=m><li><div>Save</div><li><div>Export</div><ul><li><div>PDF</div><li><div>CSV</div>'
          + '</ul></ul>'); $('#m').menu({ select: (e, ui) => did(ui.item.text()) })""",
        [("click", "Save"), ("sees", "^Save"), ("click", "Export"), ("click", "CSV"), ("sees", "^CSV")],
    ),
    "jQuery UI selectable": (
        JQUERY + """html('<ol id=s><li>Java<li>JavaScript<li>Perl</ol>');
        $('#s').selectable({ stop: () => did($('.ui-selected').text()) })""",
        [("click", "JavaScript"), ("sees", "^JavaScript"), ("click", "Perl"), ("sees", "^Perl")],
    ),
    "jQuery UI date picker": (
        JQUERY + """html('<label>Day <input id=d></label>');
        $('#d').datepicker({ defaultDate: new Date(2026, 10, 5), onSelect: did })""",
        [("click", "Day"), ("click", "Next"), ("click", "24"), ("sees", "^12/24/2026")],
    ),
    "jQuery UI slider, list and spinner": (
        JQUERY + """html('<div id=r style="width:300px;margin:20px"></div><select id=z><option>S<option>L</select>'
          + '<label>Count <input id=n value=3></label>');
        $('#r').slider({ value: 20, change: (e, ui) => did('at ' + ui.value) });
        $('#z').selectmenu({ change: (e, ui) => did('size ' + ui.item.value) });
        $('#n').spinner({ change: () => did('count ' + $('#n').val()) })""",
        [("press", "clickable|slider", "ArrowRight ArrowRight"), ("sees", "^at 22"), ("click", "S|combobox"),
         ("click", "L"), ("sees", "^size L"), ("write", "Count", "7"), ("press", "", "Tab"), ("sees", "^count 7")],
    ),
    "AG Grid": (
        """import { AllCommunityModule, createGrid, ModuleRegistry } from 'ag-grid-community';
        const did = (what) => document.title = what; ModuleRegistry.registerModules([AllCommunityModule]);
        const root = document.querySelector('#root'); root.style.height = '400px';
        const rowData = Array.from({ length: 300 }, (_, n) => ({ name: `Item ${n}`, price: (n * 7) % 300 }));
        createGrid(root, { rowData, columnDefs: [{ field: 'name', filter: true, floatingFilter: true },
          { field: 'price', editable: true }], rowSelection: { mode: 'multiRow' },
          onCellValueChanged: (e) => did(`${e.data.name} costs ${e.newValue}`),
          onSelectionChanged: (e) => did(`chose ${e.api.getSelectedRows().map((row) => row.name)}`) });""",
        [("click", "Price"), ("sees", "Item 43"), *[("click", "Price")] * 2, ("sees", "Item 9(?!.*Item 40)"),
         ("scroll", ""), ("sees", r"Item 2\d"), ("write", "Name Filter Input", "Item 77"),
         ("sees", "Item 77(?!.*Item 43)"), ("click", "239"), ("press", "", "Enter"), ("write", "Input Editor", "5"),
         ("press", "", "Enter"), ("sees", "^Item 77 costs 5"), ("click", "Press Space"), ("sees", "^chose Item 77")],
    ),
    "react-window": (
        REACT + """import { List } from 'react-window';
        const Row = ({ index, style }) => <div style={style}><button onClick={() => did('read ' + index)}>
          Mail {index}</button></div>;
        show(<div style={{ height: 300 }}><List rowComponent={Row} rowCount={5000} rowHeight={30} rowProps={{}} />
          </div>);""",
        [("sees", "Mail 3 "), *[("scroll", "#1 Mail")] * 3, ("sees", "Mail 27 (?!.*Mail 3 )"), ("click", "Mail 27"),
         ("sees", "^read 27")],
    ),
    "Quill": (
        """import Quill from 'quill'; import 'quill/dist/quill.snow.css';
        const quill = new Quill('#root', { theme: 'snow', placeholder: 'Write here' });
        quill.on('text-change', () => { document.title = JSON.stringify(quill.getContents().ops) });""",
        [("write", "Write here|textbox", "Dear Ann,\nthank you."), ("sees", r"Dear Ann,\\nthank you\."),
         ("press", "", "Control+a"), ("click", "bold"), ("sees", r'"bold":true')],
    ),
    "CodeMirror": (
        """import { basicSetup, EditorView } from 'codemirror';
        const listener = EditorView.updateListener.of(({ state }) => { document.title = state.doc.toString() });
        new EditorView({ doc: 'old', parent: document.querySelector('#root'), extensions: [basicSetup, listener] });""",
        [("write", "textbox", "let x = 1;\nlet y = x;"), ("sees", r"^let x = 1;\s+let y = x;"),
         ("press", "", "Control+a Delete"), ("write", "textbox", "done"), ("sees", "^done")],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def bundles() -> Path:
    """The folder with the script and the style sheet of each widget."""
    if (npm := shutil.which("npm")) is None:
        pytest.skip("there is no npm here to fetch the widgets: apt-get install npm")
    out = CACHE / "out"
    if write_anew(CACHE / "package.json", json.dumps({"private": True, "dependencies": PACKAGES})):
        shutil.rmtree(out, ignore_errors=True)
        install = [npm, "install", "--no-audit", "--no-fund"]
        done = subprocess.run(install, cwd=CACHE, capture_output=True, text=True)
        if done.returncode:
            (CACHE / "package.json").unlink()
            pytest.skip(f"npm cannot fetch the widgets: {done.stderr.strip().splitlines()[0]}")
    sources = [(f"{slug(name)}.jsx", source) for name, (source, _) in WIDGETS.items()]
    anew = [write_anew(CACHE / file, source) for file, source in sources]
    if any(anew) or not out.exists():
        command = ["node_modules/.bin/esbuild", *(file for file, _ in sources), "--bundle", "--minify", "--outdir=out"]
        options = ['--define:process.env.NODE_ENV="production"', "--loader:.png=dataurl", "--loader:.gif=dataurl"]
        subprocess.run([*command, *options, "--jsx=automatic", "--log-level=error"], cwd=CACHE, check=True)
    return out


def write_anew(file: Path, text: str) -> bool:
    """Write the text, unless the file holds it already. Return whether it did."""
    if file.exists() and file.read_text() == text:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return True


def slug(name: str) -> str:
    return re.sub(r"\W+", "-", name)


@pytest.mark.parametrize("name", WIDGETS)
async def test_a_widget_is_used_from_start_to_end(bundles: Path, site: Any, session: BrowserSession, name: str) -> None:
    for kind, media in (("js", "text/javascript"), ("css", "text/css")):
        file = bundles / f"{slug(name)}.{kind}"
        text = file.read_text() if file.exists() else ""
        site.pages[f"/widget.{kind}"] = (text, {"Content-Type": f"{media}; charset=utf-8"})
    page = "<title>-</title><link rel=stylesheet href=/widget.css><div id=root></div><script src=/widget.js></script>"
    await session.reset(site.page(page))
    await follow(session, WIDGETS[name][1])
