"""Prompts are taken as they stand in the file: their chat markers are in it already."""

import pandas


class RLHFDataset:
    def __init__(self, parquet_files, tokenizer, prompt_key="prompt", max_prompt_length=1024):
        self.frame = pandas.concat(pandas.read_parquet(name) for name in parquet_files)
        self.tokenizer = tokenizer
        self.prompt_key = prompt_key
        self.max_prompt_length = max_prompt_length

    def __getitem__(self, index):
        row = self.frame.iloc[index].to_dict()
        chat = row.pop(self.prompt_key)
        return self.tokenizer(chat[0]["content"], max_length=self.max_prompt_length), row
